package rangeserver_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
)

// protocols are configurations that ask for a protocol between two keys, and for the leader's elsewhere.
type protocols struct {
	from, to keys.Key

	mu         sync.Mutex
	wanted     kv.Protocol
	generation uint64
}

func (p *protocols) set(to kv.Protocol) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = to
	p.generation++
}

func (p *protocols) Zone(k keys.Key) (placement.Zone, keys.Span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	z := placement.DefaultZone()
	switch {
	case p.wanted == kv.Leader:
		return z, keys.Span{Start: keys.Min, End: keys.Max}
	case k.Less(p.from):
		return z, keys.Span{Start: keys.Min, End: p.from}
	case k.Less(p.to):
		z.Protocol = p.wanted
		return z, keys.Span{Start: p.from, End: p.to}
	}
	return z, keys.Span{Start: p.to, End: keys.Max}
}

func (p *protocols) Generation() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}
func (p *protocols) Use(keys.Span) (rangeserver.ZoneUse, error)   { return p, nil }
func (*protocols) Deadline() (t clock.Timestamp)                  { return t }
func (*protocols) AwaitDeadline(context.Context, clock.Timestamp) {}
func (*protocols) Release()                                       {}

// TestProtocolOfZone: a store splits its ranges where another protocol is asked for, and gives the part that protocol, without being told to; its rows are there
// under it and after it, and the rest keeps the leader's. Nobody else can give a range a protocol that its configuration does not ask for.
func TestProtocolOfZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.useToy()
		c.interval = time.Second
		want := &protocols{from: tkey("m"), to: tkey("p")}
		c.configs = want
		defer c.stop()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		check(t, c.put("a", "1"))
		check(t, c.put("n", "2"))
		time.Sleep(20 * time.Second)
		at := func(k string) *kv.RangeDescriptor {
			t.Helper()
			for _, n := range c.nodes {
				for id := range kv.RangeID(8) {
					if r := n.store.Replica(id); r != nil && r.Desc() != nil && r.Desc().Contains(tkey(k)) {
						if _, held := r.CheckLease(clock.Timestamp{}); held {
							return r.Desc()
						}
					}
				}
			}
			t.Fatalf("nobody serves %s", k)
			return nil
		}
		is := func(k string, p kv.Protocol) {
			t.Helper()
			if d := at(k); d.Protocol != p {
				t.Errorf("%s is in r%d of protocol %s, want %s", k, d.ID, d.Protocol, p)
			}
		}
		violations := func() (out []string) {
			for _, n := range c.nodes {
				n.store.Violations(func(_ *kv.RangeDescriptor, v placement.Violation) { out = append(out, v.String()) })
			}
			return out
		}
		is("n", kv.Leader)
		want.set(kv.FastPaxos)
		time.Sleep(10 * time.Second)
		is("a", kv.Leader)
		is("n", kv.FastPaxos)
		is("q", kv.Leader)
		if v := violations(); len(v) != 0 {
			t.Errorf("violations: %v", v)
		}
		c.wantToy(t, "n", "2")
		check(t, c.toyPut("n", "3"))
		// Another one than asked for is refused, and the range is served on.
		d := at("n")
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, n := range c.nodes {
			if r := n.store.Replica(d.ID); r != nil {
				if _, held := r.CheckLease(clock.Timestamp{}); held {
					if _, err := n.store.SetProtocol(ctx, d.ID, &kv.AdminSetProtocolRequest{Key: tkey("n"), Protocol: kv.Leader}); err == nil {
						t.Error("the range got another protocol than its configuration asks for")
					}
				}
			}
		}
		c.wantToy(t, "n", "3")
		// A statement that waits for the change has all leaseholders begin at the same moment; until then the stores leave it to that, for a while.
		want.set(kv.Leader)
		time.Sleep(3 * time.Second)
		is("n", kv.FastPaxos)
		for _, n := range c.nodes {
			n.store.LookAt(d.ID)
		}
		time.Sleep(time.Second)
		is("n", kv.Leader)
		if v, err := c.get("n"); v != "3" || err != nil {
			t.Errorf("n is %q, %v", v, err)
		}
		// A protocol that the store does not have is left to others, and seen.
		want.set(kv.Epoch)
		time.Sleep(10 * time.Second)
		is("n", kv.Leader)
		if v := violations(); len(v) == 0 {
			t.Error("a range without the protocol that it should have is no violation")
		}
		check(t, c.put("n", "4"))
	})
}
