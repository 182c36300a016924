package rangeserver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
)

// splitBadly has range 2 of twoRanges give away, as range 9, what begins at k05 and ends in the middle of a neighbour.
func (c *cluster) splitBadly(end keys.Key) error {
	left := c.nodes[0].store.Replica(2).Desc().Clone()
	right := left.Clone()
	left.End, right.Start, right.End, right.ID = tkey("k05"), tkey("k05"), end, 9
	left.Generation, right.Generation = left.Generation+1, left.Generation+1
	_, err := c.send(context.Background(), tkey("k00"), &kv.EndTxnRequest{Anchor: tkey("k00"), Commit: true,
		Trigger: &kv.CommitTrigger{Split: &kv.SplitTrigger{Left: *left, Right: *right}}})
	return err
}

// TestReplicasOverlap: the leaseholder refuses to split off keys that are not its own. If it did not, the store would stop
// the node, and not start again (rangeserver.RS1).
func TestReplicasOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := twoRanges(t)
		defer c.stop()
		n := c.nodes[0]
		if err := c.splitBadly(tkey("k15")); err == nil || n.store.Failed() != nil {
			t.Fatalf("%v, %v", err, n.store.Failed())
		}
		c.anyTrigger.Store(true)
		check(t, c.splitBadly(tkey("k15")))
		if err := n.store.Failed(); err == nil || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("the node goes on: %v", err)
		}
		check(t, n.engine.Sync())
		n.stop()
		h := n.machine.Boot(context.Background())
		defer h.Group.Stop()
		again, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
		check(t, err)
		defer again.Close()
		_, err = rangeserver.Open(rangeserver.Options{Host: h, Clock: clock.New(h.Clock, clock.DefaultMaxOffset), Engine: again,
			Liveness: nodeLiveness{c.liveness, n}, NodeID: 1, StoreID: 1, QueueInterval: -1,
			Leader: func(*replica.Replica, any) rangeserver.Leader { return &participant{n: n} }})
		if err == nil || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("the node starts again: %v", err)
		}
	})
}

// absorbed is a rangeserver.Sender that finds a key in some range.
type absorbed struct{ by *kv.RangeID }

func (a absorbed) Send(context.Context, *kv.Batch) (*kv.BatchResponse, error) {
	return &kv.BatchResponse{Responses: []kv.Response{&kv.RangeInfoResponse{Desc: kv.RangeDescriptor{ID: *a.by}}}}, nil
}

// TestOrphaned: what is left here of a range that was absorbed elsewhere is removed with its data; so only if nobody here is
// going to absorb it, and nobody else has any of its data, or is about to (rangeserver.RS1).
func TestOrphaned(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(c *cluster, s *rangeserver.Store)
		want   bool
	}{
		{"absorbed elsewhere", func(*cluster, *rangeserver.Store) {}, true},
		{"the left neighbour here is older than the index", func(c *cluster, s *rangeserver.Store) {
			d := s.Replica(2).Desc().Clone()
			d.Generation++
			check(c.t, database{c}.RunInternal(context.Background(), "", func(ctx context.Context, tx rangeserver.Tx) error {
				_, err := c.send(ctx, d.Start, &kv.PutRequest{Key: keys.RangeDescriptorKey(d.Start), Value: d.Append(nil)})
				return err
			}))
		}, false},
		{"the range still exists", func(c *cluster, s *rangeserver.Store) { *c.nodes[0].sender.(absorbed).by = 3 }, false},
		{"another replica has some of its keys", func(c *cluster, s *rangeserver.Store) {
			c.anyTrigger.Store(true)
			check(c.t, c.splitBadly(tkey("k15")))
		}, false},
		{"its left neighbour is being born", func(c *cluster, s *rangeserver.Store) { c.beginSplit(s.Replica(2).Desc(), "k05") }, false},
		{"it is being split", func(c *cluster, s *rangeserver.Store) { c.beginSplit(s.Replica(3).Desc(), "k15") }, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := twoRanges(t)
				defer c.stop()
				s := c.nodes[0].store
				d := s.Replica(3).Desc()
				x.change(c, s)
				got, err := s.Orphaned(context.Background(), d)
				if err != nil || got != x.want {
					t.Errorf("%v, %v, want %v", got, err, x.want)
				}
			})
		})
	}
}

// beginSplit has a split of a range begun to be applied.
func (c *cluster) beginSplit(d *kv.RangeDescriptor, at string) {
	right := d.Clone()
	right.ID, right.Start = 9, tkey(at)
	s := c.nodes[0].store
	_, err := s.RightSide(s.Replica(d.ID), right)
	check(c.t, err)
}
