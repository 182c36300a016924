package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// newsWorld is replicas of one range and what they have of some options, as a naive model: which replica accepted which option when, and which options the log has, up to which index
// each replica has applied it.
type newsWorld struct {
	h     *host.Host
	nodes []*newsNode
	log   int // options that are in the log

	mu      sync.Mutex // guards the fields below, and those of nodes and options, which only the test's goroutine writes; nothing is taken after it
	dice    *rand.Rand
	cut     map[[2]int]bool
	options []*newsOption
}

// intN is a random number.
func (w *newsWorld) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.IntN(n)
}

// lost reports whether messages of a node to another one are lost.
func (w *newsWorld) lost(from, to int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[[2]int{from, to}]
}

// write changes what the nodes' goroutines read.
func (w *newsWorld) write(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

type newsOption struct {
	key   keys.Key
	name  core.Name
	at    []time.Duration // by replica: when it accepted the option; zero: it did not
	index int             // in the log; zero: not yet
}

// newsNode is a replica; its News is lost when its process ends, what it has accepted and applied is not.
type newsNode struct {
	w       *newsWorld
	i       int
	n       *News
	group   *host.Group
	applied int
}

// tell implements teller.
func (x *newsNode) tell() (items []newsItem, applied uint64, err error) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	for _, o := range x.w.options {
		if o.at[x.i] != 0 && (o.index == 0 || o.index > x.applied) {
			items = append(items, newsItem{1, accepted, o.key, o.name})
		}
	}
	return items, uint64(x.applied), nil
}

// has reports whether the replica has heard of an option, by itself.
func (x *newsNode) has(o *newsOption) bool {
	return o.at[x.i] != 0 || o.index != 0 && o.index <= x.applied
}

// start begins a process of the node.
func (x *newsNode) start() {
	if x.group != nil {
		x.group.Stop()
	}
	x.group = x.w.h.Group.Child()
	h := *x.w.h
	h.Group = x.group
	d := &kv.RangeDescriptor{ID: 1, Start: keys.Key("a"), End: keys.Key("z")}
	for i := range x.w.nodes {
		d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(i + 1), Replica: kv.ReplicaID(i + 1), Type: kv.Voter})
	}
	n := NewNews(NewsOptions{Host: &h, NodeID: func() kv.NodeID { return kv.NodeID(x.i + 1) }, Ask: func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
		j := int(to) - 1
		if h.Clock.Sleep(ctx, time.Duration(1+x.w.intN(60))*time.Millisecond) != nil || x.w.lost(x.i, j) {
			return nil, errors.New("lost")
		}
		x.w.mu.Lock()
		other := x.w.nodes[j].n
		x.w.mu.Unlock()
		b, err := other.Serve(ctx, kv.NodeID(x.i+1), msg)
		if h.Clock.Sleep(ctx, time.Duration(1+x.w.intN(60))*time.Millisecond) != nil || x.w.lost(j, x.i) {
			return nil, errors.New("lost")
		}
		return b, err
	}})
	x.w.write(func() { x.n = n })
	n.join(d, kv.NodeID(x.i+1), x)
}

// check compares what a replica says with the model (fastpaxos.FP85): it has each option that a classic quorum had accepted by the time that it names, or counts its row as one that lacks it.
func (x *newsNode) check(quorum int) (claims bool, err error) {
	g := x.n.of(1)
	if _, err := g.caughtUp(nil, func(engine.Reader) (uint64, error) { return uint64(x.applied), nil }); err != nil {
		return false, err
	}
	at := time.Duration(g.at.Load())
	if at == 0 {
		return false, nil
	}
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	for _, o := range x.w.options {
		before := 0
		for _, t := range o.at {
			if t != 0 && t < at {
				before++
			}
		}
		if before < quorum || x.has(o) {
			continue
		}
		lacks := false
		for _, l := range g.lacking[string(o.key)] {
			lacks = lacks || l.name == o.name
		}
		if !lacks {
			return true, fmt.Errorf("n%d has heard all until %v, and nothing of %s %v, which was accepted at %v", x.i+1, at, o.key, o.name.At, o.at)
		}
	}
	return true, nil
}

// TestNewsModel: options are accepted, logged and applied while stores tell each other of them, processes begin anew and links are cut. No replica claims to have heard of more than it has.
func TestNewsModel(t *testing.T) {
	claims, stale := 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "a", Network: sim.NewNetwork(sim.NetworkOptions{Seed: seed}), Seed: seed})
			defer h.Group.Stop()
			w := &newsWorld{dice: rand.New(rand.NewPCG(seed, 0x2e35)), h: h, cut: map[[2]int]bool{}}
			n := []int{3, 5}[seed%2]
			quorum := n/2 + 1
			for i := range n {
				w.nodes = append(w.nodes, &newsNode{w: w, i: i})
			}
			for _, x := range w.nodes {
				x.start()
			}
			for step := range 400 {
				time.Sleep(time.Duration(w.intN(60)) * time.Millisecond)
				i, now := w.intN(n), h.Clock.Monotonic()+1
				switch p := w.intN(20); {
				case p < 10: // a transaction's option: a quorum or more accept it, or fewer, if its gateway dies
					o := &newsOption{key: keys.Key(fmt.Sprintf("k%02d", w.intN(8))), at: make([]time.Duration, n)}
					o.name = core.Name{At: clock.Timestamp{Wall: int64(step + 1)}}
					for b := range o.name.Txn {
						o.name.Txn[b] = byte(w.intN(256))
					}
					var at []int
					w.write(func() {
						at = w.dice.Perm(n)[:1+w.dice.IntN(n)]
						for _, j := range at {
							o.at[j] = now
						}
						w.options = append(w.options, o)
					})
					for _, j := range at {
						w.nodes[j].n.of(1).note(o.key, o.name, accepted)
					}
				case p < 14 && len(w.options) > 0: // it ends, and is in the base of those that apply the log so far
					if o := w.options[w.intN(len(w.options))]; o.index == 0 {
						w.log++
						w.write(func() { o.index = w.log })
					}
				case p < 17:
					w.write(func() { w.nodes[i].applied = w.log })
				case p == 17:
					w.nodes[i].start()
				case p == 18:
					w.write(func() { w.cut[[2]int{i, w.dice.IntN(n)}] = true })
				default:
					w.write(func() { clear(w.cut) })
				}
				for _, x := range w.nodes {
					claimed, err := x.check(quorum)
					if err != nil {
						t.Fatalf("seed %d, step %d: %v", seed, step, err)
					}
					if claimed {
						claims++
					}
				}
			}
			// Without faults all are fresh soon.
			w.write(func() {
				clear(w.cut)
				for _, x := range w.nodes {
					x.applied = w.log
				}
			})
			time.Sleep(3 * time.Second)
			for _, x := range w.nodes {
				if _, err := x.check(quorum); err != nil {
					t.Error(err)
				}
				if age := x.n.of(1).age(h.Clock.Monotonic()); age > core.StalenessMost {
					stale++
					t.Errorf("seed %d: n%d has heard nothing for %v", seed, x.i+1, age)
				}
			}
		})
	}
	t.Logf("%d claims were checked", claims)
	if claims < 10_000 {
		t.Errorf("only %d claims were checked", claims)
	}
}

// TestNewsOfMasters: a master decides about an option of which replica 3 has heard by no vote of its own, or by one that the master's ballot has taken away, and neither the decision nor the outcome comes to replica 3. It
// hears of the option from the other stores, and counts its row as one that lacks it (fastpaxos.FP85).
func TestNewsOfMasters(t *testing.T) {
	k, first, second := keys.Key("k"), core.Ballot{Round: 1, Master: 1}, core.Ballot{Round: 2, Master: 2}
	o := core.Option{Name: core.Name{Txn: kv.TxnID{1}, At: clock.Timestamp{Wall: 10}}, Update: core.Update{Value: []byte("new")}, Keys: []keys.Key{k}}
	rival := core.Option{Name: core.Name{Txn: kv.TxnID{2}, At: clock.Timestamp{Wall: 9}}, Update: core.Update{Value: []byte("rival")}, Keys: []keys.Key{k}}
	propose := func(o core.Option) *core.Request { return &core.Request{Kind: core.Propose, Key: k, Option: o} }
	dictate := func(b core.Ballot, votes ...core.Vote) *core.Request {
		return &core.Request{Kind: core.Dictate, Key: k, Ballot: b, Sequence: 1, Generation: 3, State: &core.Record{Votes: votes}}
	}
	for _, c := range []struct {
		name string
		here []*core.Request // at replica 3, the same at others
	}{
		{"a master has the record", []*core.Request{{Kind: core.Prepare, Key: k, Ballot: first, Generation: 3}, propose(o)}},
		{"rejected", []*core.Request{propose(rival), propose(o)}},
		{"accepted, and replaced by an earlier master", []*core.Request{propose(o), dictate(first)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "a", Network: sim.NewNetwork(sim.NetworkOptions{})})
				defer h.Group.Stop()
				d := &kv.RangeDescriptor{ID: 1, Start: keys.Key("a"), End: keys.Key("zz"), Generation: 3, Protocol: kv.FastPaxos}
				for r := kv.ReplicaID(1); r <= 3; r++ {
					d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(r), Replica: r, Type: kv.Voter})
				}
				as := map[kv.ReplicaID]*Voter{}
				for r := kv.ReplicaID(1); r <= 3; r++ {
					n := NewNews(NewsOptions{Host: h, Ask: func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
						return as[kv.ReplicaID(to)].news.n.Serve(ctx, kv.NodeID(r), msg)
					}})
					a := NewVoter(core.QuorumsIn(d), plain{}, 0)
					n.Attach(d, kv.NodeID(r), a.Acceptor)
					a.Begin(core.Beginning{Generation: d.Generation, Marks: &core.Marks{}}, n.of(d.ID))
					a.Load(k, &core.Record{})
					as[r] = a
				}
				step := func(r kv.ReplicaID, q core.Request) {
					as[r].Step(clock.Timestamp{}, core.Message{Request: &q})
					as[r].Effects()
				}
				ask := func() {
					qs, _ := as[3].news.n.questions(h.Clock.Monotonic())
					for _, q := range qs {
						as[3].news.n.ask(t.Context(), q.to, &q.q, h.Clock.Monotonic())
					}
				}
				time.Sleep(time.Second)
				for r := range as {
					for _, q := range c.here {
						step(r, *q)
					}
				}
				ask()
				for _, r := range []kv.ReplicaID{1, 2} {
					step(r, *dictate(second, core.Vote{Option: o, Verdict: core.Accepted}))
				}
				time.Sleep(hearEvery)
				ask()
				time.Sleep(core.LackOld + time.Millisecond)
				ask()
				now := h.Clock.Monotonic()
				rows, err := as[3].news.lackingIn(&core.Look{Keys: []keys.Key{k}}, now, func(keys.Key) (*core.Record, error) { return as[3].Record(k), nil })
				l := core.Looked{Age: as[3].news.age(now), Stale: rows}
				if v := as[3].Record(k).Vote(o.Name); v != nil { // as look does
					l.Stale = append(l.Stale, core.StaleRow{Key: k, For: time.Hour, Vote: true})
				}
				if err != nil || l.Age > core.LackOld || len(l.StaleRows(core.StalenessMost)) == 0 {
					t.Errorf("it tells %+v, %v, and has %s", l, err, show(as[3].Record(k)))
				}
				step(3, core.Request{Kind: core.End, Key: k, Option: o, Committed: true})
				if rows, err = as[3].news.lackingIn(&core.Look{Keys: []keys.Key{k}}, now, func(keys.Key) (*core.Record, error) { return as[3].Record(k), nil }); err != nil || len(rows) > 0 {
					t.Errorf("once it has heard the outcome it lacks %v, %v", rows, err)
				}
			})
		})
	}
}

// TestNewsOfTheBase: a replica whose process began anew has a record in memory that lacks a version, of which it hears by its base alone: by the log that it catches up with, up to where another one has told all. Reads have
// that version as soon as the answer is said to be young (fastpaxos.FP86).
func TestNewsOfTheBase(t *testing.T) {
	for _, span := range []bool{false, true} {
		for _, cached := range []bool{false, true} { // as a row of the base that was read a moment ago, and not as a record
			s := newStore(t)
			s.desc.Start, s.desc.End = rowKey("a"), rowKey("z")
			k := rowKey("k")
			s.row("k", "old", 1)
			n := NewNews(NewsOptions{Host: &host.Host{Clock: sim.NewClock()}})
			n.running = true
			d := &s.desc
			d.Replicas = []kv.ReplicaDescriptor{{Node: 1, Replica: 1, Type: kv.Voter}, {Node: 2, Replica: 2, Type: kv.Voter}, {Node: 3, Replica: 3, Type: kv.Voter}}
			a := NewVoter(core.QuorumsOf(3), plain{}, 0)
			n.join(d, 1, attached{a.Acceptor, d.ID})
			a.Begin(core.Beginning{Marks: &core.Marks{}}, n.of(d.ID))
			a.begin(s.e, d.Span())
			read := func() string {
				rd := mvcc.NewReader(s.e)
				defer rd.Close()
				q := &core.Look{Keys: []keys.Key{k}}
				if span {
					q = &core.Look{Span: d.Span()}
				}
				if err := a.catchUp(s.e, func(engine.Reader) (uint64, error) { return 10, nil }); err != nil {
					t.Fatal(err)
				}
				l, err := a.look(s.e, wall(now), func() *mvcc.Reader { return rd }, d, q)
				if err != nil || len(l.Rows) != 1 {
					t.Fatal(l.Rows, err)
				}
				return string(l.Rows[0].Value)
			}
			if !cached {
				base, err := Base(s.e, k)
				if err != nil {
					t.Fatal(err)
				}
				a.Load(k, base)
			}
			if v := read(); v != "old" {
				t.Errorf("it reads %q at first", v)
			}
			s.row("k", "new", 2) // it applies the log
			n.mu.Lock()
			a.news.heard[2] = &heardOf{complete: true, needs: 10, at: time.Hour}
			a.news.count()
			n.mu.Unlock()
			if v := read(); v != "new" || a.news.at.Load() == 0 {
				t.Errorf("span=%v cached=%v: it reads %q, and has heard all until %v", span, cached, v, time.Duration(a.news.at.Load()))
			}
		}
	}
}
