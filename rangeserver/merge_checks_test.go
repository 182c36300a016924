package rangeserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
)

// twoRanges is one node whose range 2 ends at k10, where range 3 begins, which ends at k20, where range 4 begins. The
// second result is the merge of 2 and 3.
func twoRanges(t *testing.T) (*cluster, kv.MergeTrigger) {
	t.Helper()
	c := newCluster(t, 1)
	absorber := kv.RangeID(2)
	c.nodes[0].sender = absorbed{&absorber}
	c.nodes[0].start(true)
	store := c.nodes[0].store
	for i, at := range []string{"k10", "k20"} {
		check(t, store.Split(context.Background(), kv.RangeID(i+2), tkey(at)))
	}
	for i := range 30 {
		check(t, c.put(fmt.Sprintf("k%02d", i), "v"))
	}
	left, right := store.Replica(2).Desc().Clone(), store.Replica(3)
	left.End, left.Generation = right.Desc().End, max(left.Generation, right.Desc().Generation)+1
	return c, kv.MergeTrigger{Left: *left, Right: *right.Desc().Clone(), Freeze: c.nodes[0].clock.Now(), Applied: right.AppliedIndex()}
}

// commitMerge asks the left side's leaseholder to carry out a merge.
func (c *cluster) commitMerge(m kv.MergeTrigger) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := c.send(ctx, tkey("k00"), &kv.EndTxnRequest{Anchor: tkey("k00"), Commit: true, Trigger: &kv.CommitTrigger{Merge: &m}})
	return err
}

// wrongMerges are merges that are not of what is there.
func wrongMerges() []wrongMerge {
	return []wrongMerge{
		{"the left side begins elsewhere", func(_ *cluster, m *kv.MergeTrigger) { m.Left.Start = tkey("a") }},
		{"it ends before the right side does", func(_ *cluster, m *kv.MergeTrigger) { m.Left.End = tkey("k15") }},
		{"the right side is not the neighbour", func(c *cluster, m *kv.MergeTrigger) {
			m.Right = *c.nodes[0].store.Replica(4).Desc().Clone()
			m.Left.End, m.Applied = m.Right.End, 0
		}},
		{"it is another range than the one asked", func(_ *cluster, m *kv.MergeTrigger) { m.Left.ID = 4 }},
		{"a range absorbs itself", func(_ *cluster, m *kv.MergeTrigger) { m.Right.ID = 2 }},
		{"nothing is absorbed", func(_ *cluster, m *kv.MergeTrigger) { m.Right.End = tkey("k10"); m.Left.End = tkey("k10") }},
		{"no new generation", func(c *cluster, m *kv.MergeTrigger) {
			m.Left.Generation = c.nodes[0].store.Replica(2).Desc().Generation
		}},
		{"the right side is not here", func(_ *cluster, m *kv.MergeTrigger) { m.Right.ID = 99 }},
		{"the right side has changed since", func(_ *cluster, m *kv.MergeTrigger) { m.Right.Generation-- }},
		{"the right side has another protocol", func(_ *cluster, m *kv.MergeTrigger) { m.Right.Protocol = toyProtocol }},
		{"the range would have another protocol", func(_ *cluster, m *kv.MergeTrigger) { m.Left.Protocol = toyProtocol }},
		{"the right side was wider", func(_ *cluster, m *kv.MergeTrigger) { m.Right.End = tkey("k30"); m.Left.End = tkey("k30") }},
		{"the right side is behind", func(_ *cluster, m *kv.MergeTrigger) { m.Applied += 100 }},
		{"the lease may end before the freeze", func(_ *cluster, m *kv.MergeTrigger) { m.Freeze = m.Freeze.Add(time.Hour) }},
		{"the right side has a witness here", func(_ *cluster, m *kv.MergeTrigger) {
			m.Right.Replicas = slices.Clone(m.Right.Replicas)
			m.Right.Replicas[0].Witness = true
		}},
	}
}

type wrongMerge struct {
	name   string
	change func(*cluster, *kv.MergeTrigger)
}

// TestMergeIsRefused: the left side's leaseholder absorbs only what it finds next to it, as it is told to find it.
func TestMergeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, good := twoRanges(t)
		defer c.stop()
		for _, x := range wrongMerges() {
			m := good
			x.change(c, &m)
			if err := c.commitMerge(m); err == nil || !strings.Contains(err.Error(), "can't absorb") {
				t.Errorf("%s: %v", x.name, err)
			}
			if c.nodes[0].store.Replica(3) == nil || c.nodes[0].store.Failed() != nil {
				t.Fatalf("%s: it was absorbed, or the node has stopped", x.name)
			}
		}
		check(t, c.commitMerge(good))
		if d := c.nodes[0].store.Replica(2).Desc(); !d.End.Equal(good.Left.End) || c.nodes[0].store.Replica(3) != nil {
			t.Errorf("not merged: %v", d)
		}
	})
}

// TestMergeFindsAnother: a merge in the log whose right side is not what is next to a replica stops its node, before and
// after a restart: what the others absorb, it does not have.
func TestMergeFindsAnother(t *testing.T) {
	for _, name := range []string{"the right side is not here", "the right side has changed since", "the right side was wider", "the right side is behind", "another replica"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, m := twoRanges(t)
				defer c.stop()
				for _, x := range append(wrongMerges(), wrongMerge{"another replica", func(_ *cluster, m *kv.MergeTrigger) { m.Right.Replicas[0].Replica++ }}) {
					if x.name == name {
						x.change(c, &m)
					}
				}
				c.anyTrigger.Store(true)
				n := c.nodes[0]
				if err := c.commitMerge(m); err == nil {
					t.Error("merged")
				}
				for range 2 {
					if n.store.Failed() == nil {
						t.Error("the node goes on")
					}
					if r := n.store.Replica(2); !r.Desc().End.Equal(tkey("k10")) {
						t.Errorf("the left side is %v", r.Desc())
					}
					n.stop()
					n.start(false)
					time.Sleep(10 * time.Second)
				}
			})
		})
	}
}
