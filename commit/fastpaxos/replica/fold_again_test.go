package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// TestFoldsInterrupted: folds fail in the middle, and are begun again with the reports of others. All that was learned counts in the next generation,
// as do the versions that somebody has executed, and at most one of two options that exclude each other; and bounds hold.
func TestFoldsInterrupted(t *testing.T) {
	s := newStore(t)
	interrupted, carried := 0, 0
	for seed := range uint64(400) {
		dice := rand.New(rand.NewPCG(seed, 3))
		s.desc.ID++
		prefix := fmt.Sprintf("b%05d", seed)
		s.desc.Start, s.desc.End = rowKey(prefix), rowKey(prefix+"\xff")
		w := &folded{t: t, s: s, dice: dice, seed: seed, q: core.QuorumsOf([]int{3, 5, 7}[dice.IntN(3)])}
		s.desc.Replicas = nil
		for i := range w.q.Replicas {
			s.desc.Replicas = append(s.desc.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(i + 1), Replica: kv.ReplicaID(i + 1)})
		}
		for i := range 4 {
			w.keys = append(w.keys, rowKey(fmt.Sprintf("%s/%d", prefix, i)))
		}
		for i := range 2 { // these have a column that does not go below zero
			if err := s.write([]replica.Row{{Key: w.keys[i], Value: []byte("5"), Timestamp: wall(1)}}); err != nil {
				t.Fatal(err)
			}
		}
		w.learned = map[core.Name]core.Verdict{}
		s.desc.Generation = 1
		w.open()
		for range 3 {
			w.work()
			interrupted += w.end()
			s.desc.Generation++
			w.open()
			carried += w.judge()
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d folds were interrupted; %d options were carried over", interrupted, carried)
	if interrupted < 200 || carried < 200 {
		t.Error("that is too few")
	}
}

// folded is a range that is folded again and again.
type folded struct {
	t         *testing.T
	s         *store
	dice      *rand.Rand
	seed      uint64
	q         core.Quorums
	keys      []keys.Key
	acceptors []*core.Acceptor
	deltas    []map[string]*core.Record // of each acceptor
	learned   map[core.Name]core.Verdict
	order     []*core.Option
	clock     int64
}

// open begins a generation: all have what the base has.
func (w *folded) open() {
	w.acceptors, w.deltas = nil, nil
	for range w.q.Replicas {
		a := core.NewAcceptor(w.q, plain{}, nil, 0)
		for _, k := range w.keys {
			r, err := Base(w.s.e, k)
			if err != nil {
				w.t.Fatal(err)
			}
			a.Load(k, r)
		}
		w.acceptors, w.deltas = append(w.acceptors, a), append(w.deltas, map[string]*core.Record{})
	}
}

func (w *folded) ask(i int, q *core.Request) *core.Reply {
	a := w.acceptors[i]
	a.Step(clock.Timestamp{}, core.Message{Request: q})
	fx := a.Effects()
	for _, x := range fx.Persist {
		w.deltas[i][string(x.Key)] = x.Record
	}
	if fx.Ticket != 0 {
		a.Durable(fx.Ticket)
	}
	return append(fx.Send, fx.After...)[0].Reply
}

// work has options arrive at some of the acceptors, and outcomes at some.
func (w *folded) work() {
	for range 1 + w.dice.IntN(12) {
		if w.clock++; w.dice.IntN(3) == 0 && len(w.order) > 0 {
			o := w.order[w.dice.IntN(len(w.order))]
			if v := w.learned[o.Name]; v != core.Undecided {
				for _, i := range w.dice.Perm(w.q.Replicas)[:w.dice.IntN(w.q.Replicas+1)] {
					w.ask(i, &core.Request{Kind: core.End, Key: o.Keys[0], Option: *o, Committed: v == core.Accepted})
				}
			}
			continue
		}
		k := w.keys[w.dice.IntN(len(w.keys))]
		o := &core.Option{Name: core.Name{At: wall(now + w.clock)}, Update: core.Update{Value: fmt.Append(nil, w.clock)}, Keys: []keys.Key{k}}
		o.Txn[0] = byte(w.clock)
		if k.Equal(w.keys[0]) || k.Equal(w.keys[1]) {
			o.Update = core.Update{Deltas: []core.Delta{{Amount: -1 - w.dice.Int64N(3), Min: 0, Max: 1 << 40}}}
		}
		o.Seen = w.acceptors[w.dice.IntN(w.q.Replicas)].Record(k).Seen()
		w.order = append(w.order, o)
		count := map[core.Verdict]int{}
		n := w.q.Replicas
		if w.dice.IntN(2) == 0 {
			n = w.dice.IntN(n + 1)
		}
		for _, i := range w.dice.Perm(w.q.Replicas)[:n] {
			v := w.ask(i, &core.Request{Kind: core.Propose, Key: k, Option: *o}).Verdict
			if count[v]++; count[v] >= w.q.Fast && v != core.Undecided {
				w.learned[o.Name] = v
			}
		}
	}
}

// end folds the generation, after some failures.
func (w *folded) end() (interrupted int) {
	for {
		var rs []reports
		for _, i := range w.dice.Perm(w.q.Replicas)[:w.q.Classic] {
			r := reports{}
			for k, g := range w.deltas[i] {
				r[k[len(rowKey("")):]] = g
			}
			rs = append(rs, r)
		}
		f := w.s.folding(rs...)
		if w.dice.IntN(2) == 0 { // it fails after a part of the rows
			f.Write = func(rows []replica.Row) error {
				n := w.dice.IntN(len(rows))
				if _, _, err := keys.DecodeProtocolKey(rows[n].Key); err == nil && n > 0 && rows[n-1].Timestamp != (clock.Timestamp{}) {
					n-- // a row and its protocol key stay together
				}
				if err := w.s.write(rows[:n]); err != nil {
					return err
				}
				return errFailed
			}
		}
		switch err := foldRange(plain{}, f); {
		case err == nil:
			return interrupted
		case !errors.Is(err, errFailed):
			w.t.Fatal(err)
		}
		interrupted++
	}
}

// judge compares the state that begins with what was learned.
func (w *folded) judge() (carried int) {
	replaced := map[string]*core.Option{}
	for _, o := range w.order {
		n := o.Name
		r := w.acceptors[0].Record(o.Keys[0])
		v := r.Outcome(n)
		if vote := r.Vote(n); vote != nil {
			v = vote.Verdict
			carried++
		}
		executed := n.At.LessEq(r.Base.At)
		switch {
		case w.learned[n] == core.Accepted && v != core.Accepted && !executed, w.learned[n] == core.Rejected && v == core.Accepted:
			w.t.Errorf("seed %d: %d was learned as %s, and is %s: %s", w.seed, n.At.Wall-now, w.learned[n], v, show(r))
		case v == core.Accepted:
			w.learned[n] = core.Accepted
			at := fmt.Sprint(o.Keys[0], o.Seen)
			if p := replaced[at]; p != nil && !o.Commutes() {
				w.t.Errorf("seed %d: %d and %d replace one state: %s", w.seed, p.At.Wall-now, n.At.Wall-now, show(r))
			}
			replaced[at] = o
		case w.learned[n] == core.Undecided:
			w.learned[n] = core.Rejected
		}
	}
	for _, k := range w.keys[:2] {
		r := w.acceptors[0].Record(k)
		left, _ := (plain{}).Column(r.Base.Data, 0)
		for i := range r.Added {
			left += r.Added[i].Deltas[0].Amount
		}
		for i := range r.Votes {
			left += r.Votes[i].Deltas[0].Amount
		}
		if left < 0 {
			w.t.Errorf("seed %d: %d are left: %s", w.seed, left, show(r))
		}
	}
	return carried
}
