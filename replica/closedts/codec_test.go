package closedts

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the messages of the side transport are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("closedts.Update", wiretest.Skips, (*Update).fields, func(u *Update) {
			for i := range u.Changed {
				u.Changed[i].Policy = Lag
			}
		}),
		wiretest.Declared("closedts.Position", wiretest.Refuses, (*Position).fields, func(p *Position) { p.Policy = Lag }),
	})
}
