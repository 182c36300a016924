package fence

import (
	"context"
	"time"

	"meridian/kv"
	"meridian/transport"
	"meridian/wire"
)

// The positions that vouch for promises that no log orders (fence.FE5).

// methodTell is the call by which a node tells a peer its position.
const methodTell = "fence.tell"

// told is what it says.
type told struct {
	Node     kv.NodeID
	Start    Start
	Position uint64
}

// teller is what one peer has been told of this node.
type teller struct {
	node    kv.NodeID
	heard   uint64 // the latest position that the peer has confirmed
	want    uint64 // the latest that somebody waits for
	waiting int
	calls   int           // that are under way
	said    uint64        // the latest position that one of them says
	begun   time.Duration // when the latest of them began
	took    time.Duration // by the last one; zero: it was not answered, or there was none
}

// patience is for how long the answer of a peer that was told alone is waited for.
func (t *teller) patience() time.Duration { return 4*t.took + tellGap }

// The calls to one peer that may be under way at the same time, and the most that lies between their beginnings: a far peer hears of a position after one way, not after the
// rest of an earlier round trip too, and a busy node does not send it each position. A near peer is called when the answer of an earlier call is about to come.
const (
	tellCalls = 4
	tellGap   = 5 * time.Millisecond
	// tellNear is the longest round trip of a peer that is told alone: if it has just been lost, whoever waits for it loses so little. Beyond it all are told.
	tellNear = 3 * time.Millisecond
	// tellAllEvery is how often all peers are told, though the nearest would do: so that it is known which that is.
	tellAllEvery = time.Second
)

// Standing is a position of this node as the others are told it who count on a replica's promise. It fails if the start is not cleared, and can't be:
// the next start would be compared with the position, and claims only what it was before (fence.FE4).
func (f *Fence) Standing(d *kv.RangeDescriptor, position uint64) (kv.StorePosition, error) {
	own := f.Own()
	return kv.StorePosition{Start: own.Number, Token: own.Token, Position: position}, f.counts(d)
}

// counts clears the start if nothing has done that: a store that was opened without ranges may be given some later.
func (f *Fence) counts(d *kv.RangeDescriptor) error {
	if f.cleared.Load() {
		return nil
	}
	ok, err := f.Admit(d)
	if err == nil && !ok {
		err = &kv.UnavailableError{Reason: "no majority of the range's nodes has recorded the start of this one"}
	}
	return err
}

// Heard takes in the position that came with another node's answer. It reports false for an answer that does not count (fence.FE3, fence.FE5): it
// comes from a start of the node that is not its latest, or without a position.
func (f *Fence) Heard(node kv.NodeID, at kv.StorePosition) bool {
	s := Start{at.Start, at.Token}
	return s != (Start{}) && f.register.Hearsay(node, "", s, at.Position)
}

// Tell returns when another voter of a range has heard that this node's store has reached a position (fence.FE5), and at once if there is no
// other. If one is near, as far as is known, it is told alone, and all of them if it does not answer in time; each by a few calls at a time, with the position as it is then.
func (f *Fence) Tell(ctx context.Context, d *kv.RangeDescriptor, position uint64) error {
	c := f.claim.Load()
	if c == nil {
		return nil
	}
	if err := f.counts(d); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Host.Clock.Monotonic()
	var voters, to []*teller
	for i := range d.Replicas {
		r := &d.Replicas[i]
		if !r.Type.Votes() || r.Node == c.Node {
			continue
		}
		t := f.tellers[r.Node]
		if t == nil {
			if len(f.tellers) >= maxPeers {
				continue
			}
			t = &teller{node: r.Node}
			f.tellers[r.Node] = t
		}
		if t.heard >= position {
			return nil
		}
		voters = append(voters, t)
	}
	if len(voters) == 0 {
		return nil
	}
	defer func() {
		for _, t := range to {
			t.waiting--
		}
	}()
	var timer <-chan time.Time
	if near := f.nearest(voters, now); near != nil {
		to = append(to, near)
		f.ring(near, c, position)
		alarm := f.o.Host.Clock.NewTimer(near.patience())
		defer alarm.Stop()
		timer = alarm.C()
	} else {
		f.toldAll, to = now, voters
		for _, t := range voters {
			f.ring(t, c, position)
		}
	}
	for {
		for _, t := range to {
			if t.heard >= position {
				return nil
			}
		}
		more := f.toldMore
		f.mu.Unlock()
		var err error
		late := false
		select {
		case <-more:
		case <-timer:
			late = true
		case <-ctx.Done():
			err = ctx.Err()
		case <-f.o.Host.Group.Context().Done():
			err = &kv.UnavailableError{Reason: "the node is stopping"}
		}
		f.mu.Lock()
		if err != nil {
			return err
		}
		if late {
			timer = nil
			near := to[0]
			for _, t := range voters {
				if t != near {
					to = append(to, t)
					f.ring(t, c, position)
				}
			}
		}
	}
}

// nearest is the voter that is told alone, nil if all of them are: the one whose answers come soonest, if it is near, and is not overdue.
func (f *Fence) nearest(voters []*teller, now time.Duration) (near *teller) {
	if len(voters) == 1 || now-f.toldAll >= tellAllEvery {
		return nil
	}
	for _, t := range voters {
		overdue := t.calls > 0 && now-t.begun > t.patience()
		if t.took > 0 && t.took <= tellNear && !overdue && (near == nil || t.took < near.took) {
			near = t
		}
	}
	return near
}

// ring has a peer told of a position that somebody waits for, if no call that is under way does that.
func (f *Fence) ring(t *teller, c *Claim, position uint64) {
	t.want = max(t.want, position)
	t.waiting++
	if now := f.o.Host.Clock.Monotonic(); t.calls == 0 || t.calls < tellCalls && t.said < position && t.begun <= now {
		late := max(0, t.begun+min(tellGap, t.took/tellCalls)-now)
		if f.o.Host.Group.Go(func(ctx context.Context) { f.tellAt(ctx, t, c, late) }) {
			t.calls, t.begun = t.calls+1, now+late
		}
	}
}

// tellAt tells one peer for as long as somebody waits for it, from a little later on.
func (f *Fence) tellAt(ctx context.Context, t *teller, c *Claim, late time.Duration) {
	if late > 0 {
		_ = f.o.Host.Clock.Sleep(ctx, late)
	}
	wait := againMin
	for {
		position := f.Position()
		f.mu.Lock()
		t.said = max(t.said, position)
		f.mu.Unlock()
		begun := f.o.Host.Clock.Monotonic()
		heard := f.tellOnce(ctx, t.node, c, position)
		f.mu.Lock()
		t.took = 0
		if heard {
			t.took = f.o.Host.Clock.Monotonic() - begun
			wait = againMin
			t.heard = max(t.heard, position)
			close(f.toldMore)
			f.toldMore = make(chan struct{})
		}
		if t.waiting == 0 || t.heard >= t.want || ctx.Err() != nil || heard && t.calls > 1 && t.said >= t.want {
			t.calls--
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		if !heard {
			_ = f.o.Host.Clock.Sleep(ctx, wait/2+time.Duration(f.o.Host.Dice.Int64N(int64(wait/2)+1)))
			wait = min(2*wait, againMax)
		}
	}
}

// tellOnce reports whether the peer has heard a position. A peer that knows a later start of this node is asked about that.
func (f *Fence) tellOnce(ctx context.Context, node kv.NodeID, c *Claim, position uint64) bool {
	ctx, cancel := f.o.Host.Clock.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := f.o.Network.CallClass(ctx, transport.ClassSystem, node, methodTell, wire.Append(nil, &told{c.Node, c.Next, position}, (*told).fields))
	if err != nil {
		return false
	}
	var a answer
	if err := wire.Decode(reply, &a, (*answer).fields); err != nil || a.By != node {
		return false
	}
	if a.Reason != "" {
		f.Recheck(node)
	}
	return a.Reason == ""
}

// listen takes in what another node says of itself.
func (f *Fence) listen(req []byte) ([]byte, error) {
	var t told
	if err := wire.Decode(req, &t, (*told).fields); err != nil {
		return nil, err
	}
	own := f.claim.Load()
	if own == nil || t.Node == 0 || t.Node == own.Node || t.Start == (Start{}) {
		return nil, nil // the empty answer
	}
	a := answer{By: own.Node}
	if !f.register.Hearsay(t.Node, "", t.Start, t.Position) {
		a.Reason, a.Known = Superseded, f.register.Get(t.Node)
	}
	return wire.Append(nil, &a, (*answer).fields), nil
}
