package replica

import (
	"testing"

	"meridian/commit/fastpaxos/core"
	"meridian/wire"
	"meridian/wire/wiretest"
)

// TestMessages: what stores tell each other, and what a base has next to rows, is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("fastpaxos.Side", wiretest.Refuses, func(b []byte, s *side) []byte { return s.append(b) }, func(r *wire.Reader, s *side) { s.read(r) },
			func(s *side) {
				s.key, s.Record = nil, *s.Record.Clone()
				for i := range s.Votes {
					s.Votes[i].Verdict %= core.Past + 1
				}
			}),
		wiretest.Of("fastpaxos.Hear", wiretest.Skips, func(b []byte, q *hear) []byte { return q.Append(b) }, readHear, nil),
		wiretest.Of("fastpaxos.Tidings", wiretest.Skips, func(b []byte, a *tidings) []byte { return a.Append(b) }, readTidings, func(a *tidings) {
			for i := range a.Items {
				a.Items[i].Kind %= aborted + 1
			}
		}),
		wiretest.Of("fastpaxos.NewsItem", wiretest.Skips, func(b []byte, i *newsItem) []byte { return i.append(b) }, readNewsItem, func(i *newsItem) { i.Kind %= aborted + 1 }),
		wiretest.Of("fastpaxos.CompleteNews", wiretest.Skips, func(b []byte, c *completeNews) []byte { return c.append(b) }, readCompleteNews, nil),
	})
}
