package fence

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/wire"
)

// TestJudge lists what a peer that knows start 7, token 70, position 500 says to claims (see the package comment).
func TestJudge(t *testing.T) {
	known := Known{Start: Start{7, 70}, Position: 500, Addr: "n3:1"}
	for _, x := range []struct {
		name string
		c    Claim
		want Reason
	}{
		{"the next start of the same store", Claim{Last: Start{7, 70}, Position: 500, Next: Start{8, 80}}, ""},
		{"said again, after it was recorded", Claim{Last: Start{6, 60}, Position: 400, Next: Start{7, 70}}, ""},
		{"starts in between that this peer has not heard of", Claim{Last: Start{9, 90}, Position: 700, Next: Start{10, 100}}, ""},
		{"an old copy of an older start", Claim{Last: Start{5, 50}, Position: 300, Next: Start{6, 61}}, Superseded},
		{"a copy of the start before, whose next start is this one's number", Claim{Last: Start{6, 60}, Position: 300, Next: Start{7, 71}}, Twin},
		{"a copy that was started as often", Claim{Last: Start{7, 71}, Position: 600, Next: Start{8, 81}}, Twin},
		{"a copy of the present start, one change too old", Claim{Last: Start{7, 70}, Position: 499, Next: Start{8, 80}}, Behind},
		{"an old copy that was started often", Claim{Last: Start{20, 200}, Position: 499, Next: Start{21, 210}}, Behind},
	} {
		if got := judge(known, &x.c); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// TestHeardBeforeItsClaim: a peer hears of a start from membership before the start is claimed at it. It objects all the same if it knows
// the node at a later position than the one at which the store was found.
func TestHeardBeforeItsClaim(t *testing.T) {
	for _, found := range []uint64{499, 500} {
		r := NewRegister()
		r.Load(3, Known{Start: Start{7, 70}, Position: 500, Addr: "n3:1"})
		r.Hearsay(3, "n3:1", Start{8, 80}, 510)
		c := &Claim{Node: 3, Last: Start{7, 70}, Position: found, Next: Start{8, 80}}
		want := Reason("")
		if found < 500 {
			want = Behind
		}
		asked, _, _ := r.Judge(c)
		recorded, _, _ := r.Record(c)
		if asked != want || recorded != want {
			t.Errorf("found at %d: %q when asked, %q when claimed", found, asked, recorded)
		}
		if want == "" {
			r.Synced(3, c.Next)
			if again, _, _ := r.Judge(c); again != "" {
				t.Errorf("claimed again: %q", again)
			}
		}
	}
}

// TestPosition of the next claim: attempts that were not cleared do not move it (fence.FE4).
func TestPosition(t *testing.T) {
	o := own{Start: Start{3, 30}, Position: 100, Cleared: true}
	for i, opening := range []uint64{200, 210, 220} {
		if o = o.next(uint64(40+i), opening); o.Position != 200 || o.Start.Number != uint64(4+i) {
			t.Fatalf("attempt %d: %+v", i, o)
		}
	}
	o.Cleared = true
	if o = o.next(50, 300); o.Position != 300 {
		t.Fatalf("after a start that was cleared: %+v", o)
	}
}

// wires connects fences without a network; who calls an address that nobody has waits.
type wires struct {
	self     kv.NodeID
	handlers map[string]transport.Handler
	addrs    map[string]*wires
	nodes    map[kv.NodeID]*wires
}

func (w *wires) Handle(m string, h transport.Handler) { w.handlers[m] = h }

func (w *wires) to(ctx context.Context, o *wires, m string, req []byte) ([]byte, error) {
	if o == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return o.handlers[m](ctx, w.self, req)
}

func (w *wires) CallAddr(ctx context.Context, addr, m string, req []byte) ([]byte, error) {
	return w.to(ctx, w.addrs[addr], m, req)
}

func (w *wires) CallClass(ctx context.Context, _ transport.Class, node kv.NodeID, m string, req []byte) ([]byte, error) {
	return w.to(ctx, w.nodes[node], m, req)
}

// fences makes nodes that are connected when the test puts them into nodes.
func fences(t *testing.T) (nodes map[kv.NodeID]*wires, addrs map[string]*wires, refused chan error, open func(node kv.NodeID, addr string) *Fence) {
	network := sim.NewNetwork(sim.NetworkOptions{})
	addrs, nodes, refused = map[string]*wires{}, map[kv.NodeID]*wires{}, make(chan error, 9)
	open = func(node kv.NodeID, addr string) *Fence {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: addr, Network: network, Log: slog.New(slog.DiscardHandler)})
		e, err := engine.Open(h, "store", engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &wires{self: node, handlers: map[string]transport.Handler{}, addrs: addrs, nodes: nodes}
		addrs[addr] = w
		f, err := New(Options{Host: h, Engine: e, Network: w, Addr: addr, OnRefused: func(err error) { refused <- err },
			Resolve: func(n kv.NodeID) (string, bool) { return "", nodes[n] != nil }})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Begin(node, true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Group.Stop(); e.Close() })
		return f
	}
	return nodes, addrs, refused, open
}

// TestRunning: a start that answers at its address is not replaced, even by a store that lacks nothing; one that does not
// answer is, and is then not heard any more (fence.FE3).
func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, addrs, refused, open := fences(t)
		peer, first := open(1, "n1"), open(3, "n3")
		nodes[1], nodes[3] = addrs["n1"], addrs["n3"]
		first.Meet(1)
		time.Sleep(time.Second)
		if !first.Recorded(1) || peer.Open(3, first.Own()) == nil {
			t.Fatal("the first start is not recorded")
		}
		claim := func() answer {
			c := Claim{Node: 3, Last: first.Own(), Position: 1 << 40, Next: Start{first.Own().Number + 1, 99}, Addr: "n4"}
			reply, err := nodes[1].handlers[methodRecord](context.Background(), 3, wire.Append(nil, &c, (*Claim).fields))
			if err != nil {
				t.Fatal(err)
			}
			var a answer
			if err := wire.Decode(reply, &a, (*answer).fields); err != nil {
				t.Fatal(err)
			}
			return a
		}
		heard := peer.Open(3, first.Own())
		if a := claim(); a.Reason != Running || !heard.Heard(first.Own(), 1) {
			t.Fatalf("a twin of a running node: %+v", a)
		}
		n3 := addrs["n3"]
		delete(addrs, "n3")
		if a := claim(); a.Reason != "" || a.By != 1 || heard.Heard(first.Own(), 1) {
			t.Fatalf("after the first one's end: %+v", a)
		}
		addrs["n3"] = n3
		first.Recheck(1)
		var why *RefusedError
		if err := <-refused; !errors.As(err, &why) || why.Reason != Superseded {
			t.Fatal(err)
		}
		if peer.Open(3, first.Own()) != nil || first.Position() == 0 {
			t.Fatal("the first start is still heard")
		}
	})
}

// TestRegisterSurvives: what a node has recorded is there when it is opened again, and the positions that it has written.
func TestRegisterSurvives(t *testing.T) {
	network := sim.NewNetwork(sim.NetworkOptions{})
	h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: network, Log: slog.New(slog.DiscardHandler)})
	defer h.Group.Stop()
	e, err := engine.Open(h, "store", engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f := &Fence{register: NewRegister()}
	f.register.Hearsay(3, "n3:1", Start{4, 40}, 1000)
	b := e.NewBatch()
	f.AppendChanges(b)
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	b.Close()
	r := NewRegister()
	if err := readRegister(e, r); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Get(3), (Known{Start{4, 40}, 1000, "n3:1"}); got != want {
		t.Fatalf("%+v", got)
	}
	r.Unsaved(func(kv.NodeID, Known) { t.Error("nothing has changed") })
}

// TestRecordAfterHearsay: a start that was heard of before it was claimed is durable when the claim is answered (fence.FE2), and two
// nodes that start again without each other's address find each other by the addresses to join.
func TestRecordAfterHearsay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := sim.NewNetwork(sim.NetworkOptions{})
		addrs := map[string]*wires{}
		open := func(node kv.NodeID, addr string) *Fence {
			h := sim.NewHost(context.Background(), sim.MachineOptions{Name: addr, Network: network, Log: slog.New(slog.DiscardHandler)})
			e, err := engine.Open(h, "store", engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := &wires{self: node, handlers: map[string]transport.Handler{}, addrs: addrs}
			addrs[addr] = w
			f, err := New(Options{Host: h, Engine: e, Network: w, Addr: addr, Join: []string{"n1", "n2"}, OnRefused: func(err error) { t.Error(err) },
				Resolve: func(kv.NodeID) (string, bool) { return "", false }})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Begin(node, true); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { h.Group.Stop(); e.Close() })
			return f
		}
		one, two := open(1, "n1"), open(2, "n2")
		one.register.Hearsay(2, "", two.Own(), 1)
		two.Meet(1)
		time.Sleep(time.Second)
		if !two.Recorded(1) {
			t.Fatal("the start is not recorded")
		}
		read := NewRegister()
		if err := readRegister(one.o.Engine, read); err != nil {
			t.Fatal(err)
		}
		if got := read.Get(2); got.Start != two.Own() || got.Addr != "n2" {
			t.Fatalf("on disk is %+v", got)
		}
	})
}

// TestTell: who answers a gateway of its own node waits until another voter has heard the position, and no longer; a range without another
// voter waits for nobody (fence.FE5).
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, addrs, _, open := fences(t)
		first, second, self := open(1, "n1"), open(2, "n2"), open(3, "n3")
		d := &kv.RangeDescriptor{Replicas: []kv.ReplicaDescriptor{{Node: 1, Replica: 1}, {Node: 2, Replica: 2}, {Node: 3, Replica: 3}}}
		alone := &kv.RangeDescriptor{Replicas: []kv.ReplicaDescriptor{{Node: 3, Replica: 1}, {Node: 1, Replica: 2, Type: kv.NonVoter}}}
		ctx := context.Background()
		position := self.Position()
		if err := self.Tell(ctx, alone, position); err != nil {
			t.Fatal(err)
		}
		limit, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := self.Tell(limit, d, position); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("nobody was reached, and Tell says %v", err)
		}
		synctest.Wait()
		nodes[2] = addrs["n2"]
		if err := self.Tell(ctx, d, position); err != nil {
			t.Fatal(err)
		}
		if at := second.register.Get(3); at.Position < position || at.Start != self.Own() {
			t.Fatalf("the peer has heard %+v of %d", at, position)
		}
		synctest.Wait()
		nodes[2] = nil
		begun := time.Now()
		if err := self.Tell(ctx, d, position); err != nil || time.Since(begun) > 0 {
			t.Fatalf("what was told is told again: %v after %s", err, time.Since(begun))
		}
		// Another start of this node was recorded at the peer: this one is not heard any more.
		synctest.Wait()
		nodes[1] = addrs["n1"]
		first.register.Hearsay(3, "", Start{self.Own().Number + 1, 99}, 1)
		more, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := self.Tell(more, d, position+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the peer knows a later start, and Tell says %v", err)
		}
		at, err := self.Standing(d, position)
		if err != nil || first.Heard(3, at) || !second.Heard(3, at) || second.Heard(3, kv.StorePosition{}) {
			t.Fatal("an answer counts though its start is not the latest, or has no position")
		}
	})
}

// TestTellNearest: if one is near, as far as is known, that voter alone is told; all are if none is or it does not answer in time, and now and then in any case (fence.FE5).
func TestTellNearest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, addrs, _, open := fences(t)
		open(1, "n1")
		open(2, "n2")
		self := open(3, "n3")
		d := &kv.RangeDescriptor{Replicas: []kv.ReplicaDescriptor{{Node: 1, Replica: 1}, {Node: 2, Replica: 2}, {Node: 3, Replica: 3}}}
		var mu sync.Mutex // guards calls
		calls := map[string]int{}
		takes := map[string]time.Duration{"n1": 40 * time.Millisecond, "n2": time.Millisecond}
		for addr := range takes {
			answer := addrs[addr].handlers[methodTell]
			addrs[addr].handlers[methodTell] = func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
				mu.Lock()
				calls[addr]++
				mu.Unlock()
				time.Sleep(takes[addr])
				return answer(ctx, from, req)
			}
		}
		nodes[1], nodes[2] = addrs["n1"], addrs["n2"]
		tell := func() time.Duration {
			t.Helper()
			b := self.o.Engine.NewBatch()
			defer b.Close()
			b.Put(keys.Key("k"), []byte("v"))
			if err := b.Commit(true); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := self.Tell(t.Context(), d, self.Position()); err != nil {
				t.Fatal(err)
			}
			took := time.Since(begun)
			time.Sleep(100 * time.Millisecond) // calls end
			synctest.Wait()
			return took
		}
		want := func(took, most time.Duration, n1, n2 int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if took > most || calls["n1"] != n1 || calls["n2"] != n2 {
				t.Errorf("it took %s, at most %s, with %v calls, want %d and %d", took, most, calls, n1, n2)
			}
		}
		want(tell(), time.Millisecond, 1, 1) // nothing is known of either
		want(tell(), time.Millisecond, 1, 2)
		want(tell(), time.Millisecond, 1, 3)
		nodes[2] = nil // the nearest is lost
		want(tell(), tellGap+4*time.Millisecond+takes["n1"], 2, 3)
		want(tell(), takes["n1"], 3, 3) // and is known to be
		nodes[2] = addrs["n2"]
		time.Sleep(2 * callTimeout)
		synctest.Wait()
		want(tell(), takes["n1"], 4, 4) // all are told again
		want(tell(), time.Millisecond, 4, 5)
		takes["n2"] = 20 * time.Millisecond // the nearest is in another region
		want(tell(), takes["n2"], 5, 6)     // and does not answer in time
		want(tell(), takes["n2"], 6, 7)
		want(tell(), takes["n2"], 7, 8)
		nodes[2] = nil
		want(tell(), takes["n1"], 8, 8) // whose loss nobody waits for
	})
}
