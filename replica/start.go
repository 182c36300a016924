package replica

import (
	"context"
	"fmt"

	"meridian/kv"
)

// Pending is a command that was given to raft and has to be waited for.
type Pending struct {
	r *Replica
	c *Command
	p *proposal
	a *Append
	// synced: Wait has had the engine synced.
	synced bool
}

// Start is Propose up to the point where it would wait. With lazy, the append is not being synced yet: another append has to sync the
// engine (Cover), or Wait does it. Errors are those of Propose; after an error there is no Pending. Wait must follow soon: later appends to
// the same log may be promised by then, but are not applied before.
func (r *Replica) Start(c *Command, lazy bool) (*Pending, error) {
	if len(c.Batch) > maxEntryBytes {
		return nil, &kv.UnavailableError{Reason: "command too large"}
	}
	if err := r.room(c); err != nil {
		return nil, err
	}
	p := &proposal{sequence: c.LeaseSequence, done: make(chan error, 1)}
	r.hold()
	defer r.release()
	if err := r.propose(c, p); err != nil {
		return nil, err
	}
	r.lazily = lazy
	a := r.process(true)
	r.lazily = false
	return &Pending{r: r, c: c, p: p, a: a}, nil
}

// room refuses commands for which the disks of the range have no space. It accepts those that free space or locks: a transaction that could
// not be ended would leave intents that block others. It also accepts those of the system ranges, which the other nodes need. Deletions are
// refused later than insertions, and commands that end transactions are accepted as long as the disk works.
func (r *Replica) room(c *Command) error {
	if c.Delta.TotalBytes <= 0 || c.Use == Settles || !r.wantsLiveness() {
		return nil
	}
	full, scarce := r.o.Engine.DiskFull(), r.o.Engine.DiskScarce()
	if at := r.o.Store.Full(r.desc.Load()); full || at != 0 {
		if c.Use == Removes && !scarce {
			return nil
		}
		if full {
			at = r.o.Node
		}
		return &kv.UnavailableError{Reason: fmt.Sprintf("the disk of node %d is nearly full", at), DiskFull: true}
	}
	return nil
}

// Wait returns what Propose would. It is called exactly once.
func (x *Pending) Wait(ctx context.Context) error {
	x.synced = x.r.finish(x.a)
	return x.r.await(ctx, x.c, x.p)
}

// Synced reports whether Wait, which has returned, found the engine synced since Start.
func (x *Pending) Synced() bool { return x.synced }

// Cover says that the engine has been synced since Start.
func (x *Pending) Cover() {
	if x.a != nil && x.a.lazy {
		x.a.covered = true
	}
}
