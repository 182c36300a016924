package simtest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/sim/simcluster"
	"meridian/storage/engine"
)

// Compared compares the replicas of every range, and returns those that deviate or have wrong statistics.
func Compared(c *simcluster.Cluster) (problems []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for i := range c.Len() {
		n := c.Node(i)
		for _, id := range Leases(n) {
			check, err := n.Store().CheckRange(ctx, id)
			var moved *kv.NotLeaseholderError
			var gone *kv.RangeNotFoundError
			switch {
			case errors.As(err, &moved) || errors.As(err, &gone):
			case err != nil:
				problems = append(problems, fmt.Sprintf("r%d can't be compared: %v", id, err))
			case len(check.Deviating) > 0:
				problems = append(problems, check.Deviating[0].Error())
			case check.Kept != check.Counted:
				problems = append(problems, fmt.Sprintf("r%d: statistics say %+v, a count %+v", id, check.Kept, check.Counted))
			case len(check.Missing) > 0:
				problems = append(problems, fmt.Sprintf("r%d: nothing was heard of the replicas on %v up to index %d%s", id, check.Missing, check.Index,
					ReplicasOn(c, id, check.Missing)))
			}
		}
	}
	return problems
}

// ReplicasOn describes the replicas of a range on some nodes, to tell one that lags behind from one that is not there.
func ReplicasOn(c *simcluster.Cluster, id kv.RangeID, nodes []kv.NodeID) (out string) {
	for i := range c.Len() {
		n := c.Node(i)
		if n == nil || n.Store() == nil || !slices.Contains(nodes, n.NodeID()) {
			continue
		}
		there := false
		n.Store().Replicas(func(r *replica.Replica) bool {
			if r.RangeID() == id {
				there = true
				st := r.Status()
				d, l := st.Desc, st.Lease
				st.Desc, st.Lease = nil, lease.Lease{}
				out += fmt.Sprintf("; node %d has %v, %v, %+v", n.NodeID(), d, l, st)
			}
			return true
		})
		if !there {
			out += fmt.Sprintf("; node %d has no replica", n.NodeID())
		}
	}
	return out
}

// CompareSome compares the replicas of a random range during the campaign; a replica that deviates ends its node.
// Statistics have to be right at any moment.
func CompareSome(c *simcluster.Cluster, dice *rand.Rand) error {
	n := c.Node(dice.IntN(c.Len()))
	ids := Leases(n)
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	check, err := n.Store().CheckRange(ctx, ids[dice.IntN(len(ids))])
	switch {
	case err != nil:
		return nil // it moved, or has no quorum
	case len(check.Deviating) > 0:
		return check.Deviating[0]
	case check.Kept != check.Counted:
		return fmt.Errorf("r%d: statistics say %+v, a count %+v", check.Range, check.Kept, check.Counted)
	}
	return nil
}

// Whole says what is wrong with the ranges of a cluster that has come to rest: the index has to cover the keyspace
// exactly once, every replica has to belong to a range of the index, a range's replicas have to be equal, and their
// statistics have to be equal to a count.
func Whole(c *simcluster.Cluster) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var first []kv.RangeDescriptor
	for i := range c.Len() {
		ranges, err := c.Ranges(ctx, i)
		if err != nil {
			bad("n%d: %v", i+1, err)
			continue
		}
		at := keys.Min
		for _, d := range ranges {
			if !d.Start.Equal(at) {
				bad("n%d: the index goes from %s to %v", i+1, at, &d)
			}
			at = d.End
		}
		if !at.Equal(keys.Max) {
			bad("n%d: the index ends at %s", i+1, at)
		}
		if i == 0 {
			first = ranges
		} else if fmt.Sprint(ranges) != fmt.Sprint(first) {
			bad("n%d: the index is %v, n1 sees %v", i+1, ranges, first)
		}
	}
	at := map[kv.RangeID]kv.RangeDescriptor{}
	for _, d := range first {
		at[d.ID] = d
	}
	sums := map[kv.RangeID]map[string]string{}
	for i := range c.Len() {
		n := c.Node(i)
		n.Store().Replicas(func(r *replica.Replica) bool {
			d, ok := at[r.RangeID()]
			have := r.Desc()
			if have == nil {
				return true // a message was once sent to a replica that was never made
			}
			if self, here := d.Replica(n.NodeID()); !ok || !here || self.Replica != r.ReplicaID() || have.Generation != d.Generation {
				bad("n%d has %v as replica %d, the index %v %v", i+1, have, r.ReplicaID(), &d, d.Replicas)
				return true
			}
			kept, counted, err := r.CountStats()
			if err != nil || kept != counted {
				bad("n%d, %v: statistics say %+v, a count %+v (%v)", i+1, have, kept, counted, err)
			}
			// Followers of a range that is written now may be a little behind, so the comparison is at one applied index.
			before := r.AppliedIndex()
			sum, err := Fingerprint(n.Store().Engine(), have)
			if err != nil {
				bad("n%d, %v: %v", i+1, have, err)
			}
			if r.AppliedIndex() == before {
				at := fmt.Sprint("at ", before)
				if sums[d.ID] == nil {
					sums[d.ID] = map[string]string{}
				}
				if other, ok := sums[d.ID][at]; ok && other != sum {
					bad("r%d: replicas differ %s", d.ID, at)
				}
				sums[d.ID][at] = sum
			}
			return true
		})
	}
	return problems
}

// Fingerprint is a hash of a range's data on one store.
func Fingerprint(e *engine.Engine, d *kv.RangeDescriptor) (string, error) {
	h := fnv.New128a()
	for _, s := range keys.RangeDataSpans(d.Start, d.End) {
		it, err := e.NewIter(engine.IterOptions{Lower: s.Start, Upper: s.Stop()})
		if err != nil {
			return "", err
		}
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				_ = it.Close()
				return "", err
			}
			fmt.Fprintf(h, "%d %d ", len(it.RawKey()), len(v))
			_, _ = h.Write(it.RawKey())
			_, _ = h.Write(v)
		}
		if err := it.Close(); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
