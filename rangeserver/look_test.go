package rangeserver_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
	"meridian/replica"
)

// cuts are boundaries between configurations, once they are on.
type cuts struct {
	at []keys.Key
	on atomic.Bool
}

func (c *cuts) Zone(k keys.Key) (placement.Zone, keys.Span) {
	span := keys.Span{Start: keys.Min, End: keys.Max}
	if c.on.Load() {
		for _, at := range c.at {
			if at.Compare(k) <= 0 {
				span.Start = at
			} else {
				span.End = at
				break
			}
		}
	}
	return placement.DefaultZone(), span
}

func (c *cuts) Generation() uint64 {
	if c.on.Load() {
		return 1
	}
	return 0
}

func (c *cuts) Use(keys.Span) (rangeserver.ZoneUse, error)   { return c, nil }
func (*cuts) Deadline() (t clock.Timestamp)                  { return t }
func (*cuts) AwaitDeadline(context.Context, clock.Timestamp) {}
func (*cuts) Release()                                       {}

// TestLookAt: a range that somebody waits for is split at all boundaries within it without any pass of the queue, at the one in the middle first: the longest chain of
// splits of 31 boundaries is five.
func TestLookAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.interval = time.Hour
		boundaries := &cuts{}
		for i := range 31 {
			boundaries.at = append(boundaries.at, tkey(fmt.Sprintf("k%02d", i)))
		}
		c.configs = boundaries
		defer c.stop()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		check(t, c.put("a", "1"))
		time.Sleep(10 * time.Second)
		for range 10 { // the ranges get three voters each
			c.leaseholder(2).store.LookAt(1, 2)
			time.Sleep(time.Second)
		}
		boundaries.on.Store(true)
		time.Sleep(10 * time.Second)
		at := c.leaseholder(2).store
		starts := func() (out []string) {
			at.Replicas(func(r *replica.Replica) bool {
				if d := r.Desc(); d != nil {
					out = append(out, string(d.Start))
				}
				return true
			})
			return out
		}
		if n := len(starts()); n != 2 {
			t.Fatalf("%d ranges before anybody has asked", n)
		}
		generation := at.Replica(2).Desc().Generation
		at.LookAt(2)
		time.Sleep(2 * time.Second)
		got := starts()
		for _, k := range boundaries.at {
			if !slices.Contains(got, string(k)) {
				t.Errorf("no range begins at %s", k)
			}
		}
		most := generation // each split gives both sides the next one
		at.Replicas(func(r *replica.Replica) bool {
			if d := r.Desc(); d != nil {
				most = max(most, d.Generation)
			}
			return true
		})
		if n := most - generation; n > 5 {
			t.Errorf("%d splits were made one after the other", n)
		}
		at.LookAt(2, kv.RangeID(99)) // which is not here
		time.Sleep(time.Second)
	})
}
