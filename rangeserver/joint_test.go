package rangeserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
)

// TestLeaderOnItsWayOut: the leaseholder dies between the two steps of an exchange of voters, and the raft leader is one
// that is about to go, which may not take the lease. It has to let somebody lead who may.
func TestLeaderOnItsWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		defer c.stop()
		ctx := context.Background()
		check(t, c.put("a", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		time.Sleep(2 * time.Second)
		if lh := c.leaseholder(2); lh.id != 1 || !lh.store.Replica(2).IsLeader() {
			t.Fatal("node 1 does not lead")
		}
		// n1 is on its way out, the others stay.
		d := *c.nodes[0].store.Replica(2).Desc().Clone()
		d.Generation++
		for i := range d.Replicas {
			if d.Replicas[i].Node == 1 {
				d.Replicas[i].Type = kv.VoterOutgoing
			}
		}
		check(t, database{c}.RunInternal(ctx, "", func(ctx context.Context, tx rangeserver.Tx) error {
			if err := tx.Put(ctx, keys.RangeDescriptorKey(d.Start), d.Append(nil)); err != nil {
				return err
			}
			for _, k := range keys.MetaKeys(d.Start, d.End) {
				if err := tx.Put(ctx, k, d.Append(nil)); err != nil {
					return err
				}
			}
			return tx.CommitWithTrigger(ctx, &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: d}})
		}))
		// The lease ends with n1's incarnation, its leadership does not.
		c.liveness.mu.Lock()
		c.liveness.records[1].incarnation++
		c.liveness.mu.Unlock()
		start := time.Now()
		check(t, c.put("a", "2"))
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("writes stood still for %s", took)
		}
		if lh := c.leaseholder(2); lh == nil || lh.id == 1 {
			t.Error("nobody took the lease")
		}
		c.checkLeases()
	})
}
