package core

import (
	"testing"

	"meridian/wire"
	"meridian/wire/wiretest"
)

// TestMessages: what gateways and replicas tell each other, and what replicas keep, is as package wire wants it.
func TestMessages(t *testing.T) {
	vote := func(v *Vote) { v.Verdict %= Past + 1 }
	record := func(r *Record) {
		r.kept = nil
		for i := range r.Votes {
			vote(&r.Votes[i])
		}
	}
	reigned := func(p *Reigned) {
		for i := range p.Apart {
			p.Apart[i] |= 1 // no name is zero
		}
	}
	some := func(r *Record) *Record {
		if r != nil {
			record(r)
		}
		return r
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("fastpaxos.Ballot", wiretest.Refuses, func(b []byte, n *Ballot) []byte { return n.Append(b) }, ReadBallot, nil),
		wiretest.Of("fastpaxos.Delta", wiretest.Refuses, func(b []byte, d *Delta) []byte { return d.append(b) }, readDelta, nil),
		wiretest.Of("fastpaxos.Option", wiretest.Refuses, func(b []byte, o *Option) []byte { return o.Append(b) }, ReadOption, nil),
		wiretest.Of("fastpaxos.Addition", wiretest.Refuses, func(b []byte, a *Addition) []byte { return a.append(b) }, readAddition, nil),
		wiretest.Of("fastpaxos.Vote", wiretest.Refuses, func(b []byte, v *Vote) []byte { return v.append(b) }, readVote, vote),
		wiretest.Of("fastpaxos.Ended", wiretest.Refuses, func(b []byte, e *Ended) []byte { return e.append(b) }, readEnded, nil),
		wiretest.Of("fastpaxos.Executed", wiretest.Refuses, func(b []byte, o *executed) []byte { return o.append(b) }, func(r *wire.Reader, o *executed) { o.read(r) }, nil),
		wiretest.Of("fastpaxos.Record", wiretest.Refuses, func(b []byte, r *Record) []byte { return r.Append(b) }, ReadRecord, record),
		wiretest.Of("fastpaxos.Write", wiretest.Refuses, func(b []byte, w *Write) []byte { return w.Append(b) }, ReadWrite, func(w *Write) {
			if w.Record == nil {
				w.Record = &Record{}
			}
			record(w.Record)
			w.changes = nil
		}),
		wiretest.Of("fastpaxos.Mark", wiretest.Refuses, func(b []byte, m *Mark) []byte { return m.append(b) }, readMark, nil),
		wiretest.Of("fastpaxos.PastRow", wiretest.Refuses, func(b []byte, p *PastRow) []byte { return p.append(b) }, readPastRow, func(p *PastRow) { record(&p.Record) }),
		wiretest.Of("fastpaxos.Look", wiretest.Refuses, func(b []byte, q *Look) []byte { return q.Append(b) }, readLook, nil),
		wiretest.Of("fastpaxos.Row", wiretest.Skips, func(b []byte, w *Row) []byte { return w.append(b) }, readRow, nil),
		wiretest.Of("fastpaxos.StaleRow", wiretest.Skips, func(b []byte, w *StaleRow) []byte { return w.append(b) }, readStaleRow, nil),
		wiretest.Of("fastpaxos.Outstanding", wiretest.Refuses, func(b []byte, o *Outstanding) []byte { return o.append(b) }, readOutstanding, nil),
		wiretest.Of("fastpaxos.Looked", wiretest.Skips, func(b []byte, l *Looked) []byte { return l.Append(b) }, readLooked, func(l *Looked) {
			for i := range l.Past {
				record(&l.Past[i].Record)
			}
		}),
		wiretest.Of("fastpaxos.Request", wiretest.Skips, func(b []byte, q *Request) []byte { return q.Append(b) }, readRequest,
			func(q *Request) { q.Kind %= Reign + 1; q.Beside = nil; q.State = some(q.State) }),
		wiretest.Of("fastpaxos.Reply", wiretest.Skips, func(b []byte, p *Reply) []byte { return p.Append(b) }, readReply,
			func(p *Reply) {
				p.Verdict %= Past + 1
				p.Outcome %= Past + 1
				p.Record = some(p.Record)
				if p.Reigned != nil {
					reigned(p.Reigned)
				}
				if p.Looked != nil {
					for i := range p.Looked.Past {
						record(&p.Looked.Past[i].Record)
					}
				}
			}),
		wiretest.Of("fastpaxos.Reigned", wiretest.Refuses, func(b []byte, p *Reigned) []byte { return p.append(b) }, readReigned, reigned),
		wiretest.Of("fastpaxos.Learned", wiretest.Refuses, func(b []byte, l *Learned) []byte { return l.Append(b) }, ReadLearned,
			func(l *Learned) { l.Verdict %= Past + 1 }),
	})
}
