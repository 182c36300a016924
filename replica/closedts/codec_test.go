package closedts

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the messages of the side transport are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("closedts.Update", wiretest.Skips, func(b []byte, u *Update) []byte { return u.Append(b) }, readUpdate, func(u *Update) {
			for i := range u.Changed {
				u.Changed[i].Policy = Lag
			}
		}),
		wiretest.Of("closedts.Position", wiretest.Refuses, appendPosition, readPosition, func(p *Position) { p.Policy = Lag }),
	})
}
