package rangeserver

import (
	"testing"

	"meridian/kv"
	"meridian/replica"
	"meridian/wire"
	"meridian/wire/wiretest"
)

// TestMessages: what stores tell each other is as package wire wants it.
func TestMessages(t *testing.T) {
	type ids struct {
		position uint64
		ranges   []uint64
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("rangeserver.Greeting", wiretest.Skips, greeting, nil),
		wiretest.Declared("rangeserver.Frame", wiretest.Skips, func(x *ids, c *wire.Coder) {
			f := frame{position: x.position}
			for _, id := range x.ranges {
				f.messages = append(f.messages, replica.Message{Range: kv.RangeID(id), TooOld: true})
			}
			f.fields(c)
			x.position, x.ranges = f.position, nil
			for i := range f.messages {
				x.ranges = append(x.ranges, uint64(f.messages[i].Range))
			}
		}, nil),
		wiretest.Declared("rangeserver.ProgressRequest", wiretest.Skips, (*progressRequest).fields, nil),
		wiretest.Declared("rangeserver.HashRequest", wiretest.Skips, (*hashKey).fields, nil),
		wiretest.Declared("rangeserver.HashAnswer", wiretest.Refuses, (*hashAnswer).fields, nil),
		wiretest.Declared("rangeserver.ReportPart", wiretest.Refuses, (*reportPart).fields, nil),
		wiretest.Declared("rangeserver.Deviation", wiretest.Skips, (*DeviationError).fields, nil),
	})
}
