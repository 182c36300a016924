package gateway

import (
	"testing"

	"meridian/commit/fastpaxos/core"
	"meridian/wire/wiretest"
)

// TestMessages: what gateways tell each other is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("fastpaxos.Ask", wiretest.Skips, func(b []byte, q *Ask) []byte { return q.Append(b) }, readAsk, func(q *Ask) { q.Kind %= Fate + 1 }),
		wiretest.Of("fastpaxos.Told", wiretest.Skips, func(b []byte, a *Told) []byte { return a.Append(b) }, readTold,
			func(a *Told) { a.Learned.Verdict %= core.Past + 1 }),
	})
}
