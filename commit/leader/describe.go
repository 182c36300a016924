package leader

import (
	"fmt"
	"io"

	"meridian/keys"
	"meridian/storage/mvcc"
)

// Describe writes what the participant keeps in memory, and the intents of its range: the transactions that requests wait for. It is for
// the diagnosis of a node that does not answer.
func (p *Participant) Describe(w io.Writer) {
	if c := p.closed.Load(); c != nil {
		fmt.Fprintf(w, "    closed: %v; frozen %t, for the merge %s\n", c.err, c.thawed != nil, c.txn)
	}
	p.latches.Describe(w)
	p.locks.Describe(w)
	p.waits.describe(w)
	d := p.r.Desc()
	if d == nil {
		return
	}
	rd := mvcc.NewReader(p.o.Engine)
	defer rd.Close()
	const some = 20
	var ls []mvcc.Lock
	for _, span := range []keys.Span{keys.RangeLocalSpan(d.Start, d.End), keys.UserSpan(d.Start, d.End)} {
		found, err := rd.Locks(span.Start, span.End, some)
		if err != nil {
			fmt.Fprintf(w, "    intents: %v\n", err)
		}
		ls = append(ls, found...)
	}
	for i := range ls {
		l := &ls[i]
		rec, err := p.record(p.o.Engine, l.Txn.Anchor, l.Txn.ID)
		fmt.Fprintf(w, "    intent %x of %s attempt %d at %s, anchor %x; record on this disk: %+v (%v)\n",
			[]byte(l.Key), l.Txn.ID, l.Txn.Attempt, l.Txn.WriteTimestamp, []byte(l.Txn.Anchor), rec, err)
		if at, attempt, ok := p.o.finished.Committed(l.Txn.ID); ok {
			fmt.Fprintf(w, "      known to have committed at %s, attempt %d\n", at, attempt)
		}
	}
}

func (w *pushQueue) describe(out io.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, all := range w.waiting {
		for _, x := range all {
			fmt.Fprintf(out, "    push of %s by %s waits\n", id, x.pusher.ID)
		}
	}
}
