package lease

import (
	"context"
	"fmt"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
)

// Reads of the past without a tenure. A node whose region is cut off loses its tenure, but what it knows of the catalogue stays true of the time
// before:
//
//	lease.L11 (I7): A statement reads at a timestamp T with the node's snapshot only if T is at or before the end of the tenure, however late it
//	    runs. The node has the versions that had been published by then, or the ones before them: the next but one is written only after the
//	    tenure has ended, thus above T (lease.L2). So the rows at T are as a transaction found them that committed at T within the tenure.
//	lease.L12: The rows may have been removed since, because the object was dropped after the node had heard of the catalogue for the last time.
//	    That takes KeepDropped. So the replicas that serve the statement may not have come further than two thirds of that beyond the end of the
//	    tenure: by this node's clock or, if that is later, by their closed timestamps. The replicas of a region that is cut off do not come further.
//
// In a negotiation the snapshot is therefore like a replica, and the end of the tenure is its closed timestamp.

// UpTo is the end of the tenure: up to then the node's snapshot may be used to read the past.
func (t *Txn) UpTo() clock.Timestamp { return t.m.Deadline() }

// Negotiable returns the keys of the catalogue that a statement with some dependencies may need if it reads at a timestamp: none if nothing that it depends on
// has changed since. The ranges of the catalogue need not have a replica in every region, while its tables may.
func (t *Txn) Negotiable(at clock.Timestamp, deps []catalog.Dependency) []keys.Span {
	s := t.m.snap.Load()
	for _, d := range deps {
		if !t.computed(d.ID) && s.changedSince(at, d.ID) {
			return []keys.Span{descriptorSpan(), keys.IndexSpan(catalog.NamespaceTableID, catalog.IndexID(1))}
		}
	}
	return nil
}

// Covers checks that the node's snapshot may be used at the timestamp of a historical transaction (lease.L11). If not, it waits for a while: the
// renewal of the tenure may be late.
func (t *Txn) Covers(ctx context.Context) error {
	if !t.tx.Historical() {
		return nil
	}
	at := t.tx.ReadTimestamp()
	for range awaitTries {
		if at.LessEq(t.m.Deadline()) {
			return nil
		}
		if err := t.m.o.Host.Clock.Sleep(ctx, awaitPause); err != nil {
			return err
		}
	}
	return t.outdated()
}

// Keeps checks that the rows of all objects that the node knows are still there (lease.L12). closed tells how far the replicas have come that are
// about to be read; it is not called as long as the node's own clock is answer enough.
func (t *Txn) Keeps(closed func() (clock.Timestamp, error)) error {
	until := t.m.Deadline().Add(KeepDropped * 2 / 3)
	if t.m.o.Clock.Now().LessEq(until) {
		return nil
	}
	at, err := closed()
	if err == nil && until.Less(at) {
		err = t.outdated()
	}
	return err
}

func (t *Txn) outdated() error {
	return &kv.UnavailableError{Reason: fmt.Sprintf("this node knows the catalogue up to %s only, and can't reach the nodes that know more",
		t.m.Deadline().Time().UTC().Format("2006-01-02 15:04:05.999-07"))}
}

// FamiliarOnly has names that the node does not know count as unknown, until it is turned off. Otherwise the stored names are asked, in case another
// node has made the object a moment ago; but a statement that reads the past must not wait for a leaseholder far away.
func (t *Txn) FamiliarOnly(on bool) { t.familiar = on }

// lookAgain asks for a name that the snapshot does not have, and reports whether it has it now. A historical transaction asks as of its own
// timestamp, which a replica nearby can answer.
func (v *View) lookAgain(ctx context.Context, n nameKey) (bool, error) {
	t := v.t
	if t.familiar {
		return false, nil
	}
	if t.tx != nil && t.tx.Historical() {
		if row, err := t.tx.Get(ctx, nameRowKey(n), kv.NoLock, kv.Block); row == nil || err != nil {
			return false, err
		}
	}
	return t.m.lookAgain(ctx, n)
}
