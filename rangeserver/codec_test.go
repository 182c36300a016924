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
	type frame struct {
		position uint64
		ranges   []uint64
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("rangeserver.Greeting", wiretest.Skips, appendGreeting, readGreeting, nil),
		wiretest.Of("rangeserver.Frame", wiretest.Skips, func(b []byte, f *frame) []byte {
			b = wire.Uint(b, framePosition, f.position)
			for _, id := range f.ranges {
				b = appendFrameMessage(b, &replica.Message{Range: kv.RangeID(id), TooOld: true})
			}
			return b
		}, func(r *wire.Reader, f *frame) {
			var ms []replica.Message
			f.position, ms = readFrame(r, nil)
			for _, m := range ms {
				f.ranges = append(f.ranges, uint64(m.Range))
			}
		}, nil),
		wiretest.Of("rangeserver.ProgressRequest", wiretest.Skips, appendProgressRequest, readProgressRequest, nil),
		wiretest.Of("rangeserver.HashRequest", wiretest.Skips, appendHashRequest, readHashRequest, nil),
		wiretest.Of("rangeserver.HashAnswer", wiretest.Refuses, appendHashAnswer, readHashAnswer, nil),
		wiretest.Of("rangeserver.ReportPart", wiretest.Refuses, appendReportPart, readReportPart, nil),
		wiretest.Of("rangeserver.Deviation", wiretest.Skips, appendDeviation, readDeviation, nil),
	})
}
