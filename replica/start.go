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

// Start is Propose up to the moment where there is something to wait for. With lazy, the append is not on its way to the
// disk yet: the engine has to be synced by somebody else (Cover), or Wait does it. Errors are those of Propose; after an
// error there is nothing to wait for. Wait must follow, and soon: the appends of others to the same log may have
// been promised by then, but nothing of them is applied before.
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

// room refuses what the disks of the range have no room for. Requests that free space go on, and those that let others go on: a transaction
// that could not be ended would leave its intents in everybody's way. So do the system ranges, which the other nodes
// need. Deletions stop later than insertions, and the settling of transactions never stops before the disk does.
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
