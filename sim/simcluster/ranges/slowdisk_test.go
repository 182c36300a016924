package ranges_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// slowDisk is a cluster of three nodes with one range of interest, for tests of slow disks.
type slowDisk struct {
	t      *testing.T
	c      *simcluster.Cluster
	writes int
}

// onSlowDisks calls f with a cluster whose queues are paused.
func onSlowDisks(t *testing.T, f func(s *slowDisk)) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowDisk{t: t, c: simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})}
		simtest.Replicated(t, s.c, 3)
		for i := range s.c.Len() {
			s.c.Node(i).Store().PauseQueues(true)
		}
		f(s)
	})
}

// holder is the node with the lease of the range, -1 if there is none.
func (s *slowDisk) holder() int {
	s.t.Helper()
	info, err := s.c.Node(0).Router().Range(context.Background(), simtest.UserKey(1), true)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range s.c.Len() {
		if r := s.c.Node(i).Store().Replica(info.Desc.ID); r != nil && r.Status().LeaseHeld {
			return i
		}
	}
	return -1
}

// write is how long one took.
func (s *slowDisk) write(gateway int) time.Duration {
	s.t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s.writes++
	if err := simtest.Put(ctx, s.c.Node(gateway).DB(), simtest.UserKey(s.writes%100), "v"); err != nil {
		s.t.Errorf("write %d: %v after %s", s.writes, err, time.Since(begun))
	}
	return time.Since(begun)
}

// most is the longest of the writes that fit into a span, one after the other.
func (s *slowDisk) most(gateway int, during time.Duration) (most time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		most = max(most, s.write(gateway))
	}
	return most
}

// TestSlowDiskOfFollower: a quorum needs only the faster disks, so writes are as fast as before.
func TestSlowDiskOfFollower(t *testing.T) {
	t.Parallel()
	onSlowDisks(t, func(s *slowDisk) {
		holder := s.holder()
		slow := (holder + 1) % 3
		for _, delay := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 10 * time.Second} {
			s.c.Machines[slow].Disk.SetSyncDelay(delay)
			for _, gateway := range []int{holder, slow} {
				if most := s.most(gateway, 10*time.Second); most > 3*time.Millisecond {
					t.Errorf("a write from n%d took %s while a follower's syncs took %s", gateway+1, most, delay)
				}
			}
		}
		if h := s.holder(); h != holder {
			t.Errorf("the lease went from n%d to n%d", holder+1, h+1)
		}
	})
}

// TestSlowDiskOfLeaseholder: a disk that is a little slow is tolerated, since moving a lease has a cost too. One that is
// slower than that makes the node release its leases and raft's leadership, those of the liveness records among them, and
// after one slow write all are fast again.
func TestSlowDiskOfLeaseholder(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		delay, slowest time.Duration
		moves          bool
	}{{200 * time.Millisecond, 410 * time.Millisecond, false}, {2 * time.Second, 5 * time.Second, true}, {10 * time.Second, 25 * time.Second, true}} {
		onSlowDisks(t, func(s *slowDisk) {
			holder := s.holder()
			gateway := (holder + 1) % 3
			s.c.Machines[holder].Disk.SetSyncDelay(x.delay)
			if most := s.most(gateway, 2*x.slowest); most > x.slowest {
				t.Errorf("syncs of %s: a write took %s", x.delay, most)
			}
			if moved := s.holder() != holder; moved != x.moves {
				t.Errorf("syncs of %s: the lease moved: %v", x.delay, moved)
			}
			if !x.moves {
				return
			}
			for _, gateway := range []int{holder, gateway} {
				if most := s.most(gateway, 10*time.Second); most > 3*time.Millisecond {
					t.Errorf("syncs of %s: later a write from n%d took %s", x.delay, gateway+1, most)
				}
			}
		})
	}
}

// TestSlowDisksEverywhere: if no disk is faster no lease moves, and writes are fast again soon after the last disk is.
func TestSlowDisksEverywhere(t *testing.T) {
	t.Parallel()
	onSlowDisks(t, func(s *slowDisk) {
		set := func(delay time.Duration) {
			for _, m := range s.c.Machines {
				m.Disk.SetSyncDelay(delay)
			}
		}
		holder := s.holder()
		set(500 * time.Millisecond)
		// Two syncs if all is quiet; up to eight if the write meets the nodes' own (clock bound, liveness, lease), one after the other.
		if most := s.most(holder, 20*time.Second); most > 4500*time.Millisecond {
			t.Errorf("a write took %s", most)
		}
		if h := s.holder(); h != holder {
			t.Errorf("the lease went from n%d to n%d", holder+1, h+1)
		}
		set(3 * time.Second) // longer than leases last
		time.Sleep(30 * time.Second)
		set(0)
		time.Sleep(12 * time.Second)
		if most := s.most(holder, 5*time.Second); most > 3*time.Millisecond {
			t.Errorf("12 s after all disks are fast a write took %s", most)
		}
	})
}

// TestDiskHangs: a leaseholder whose disk never returns stops itself, and the others go on (engine.EN3). While it hangs it
// releases the leases that it can; the others take the rest when it has stopped.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	onSlowDisks(t, func(s *slowDisk) {
		holder := s.holder()
		gateway := (holder + 1) % 3
		s.c.Machines[holder].Disk.SetSyncDelay(time.Hour)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- simtest.Put(ctx, s.c.Node(gateway).DB(), simtest.UserKey(1), "v") }()
		select {
		case err := <-s.c.Node(holder).Failed():
			if after := time.Since(begun); after > 30*time.Second {
				t.Errorf("it stopped after %s: %v", after, err)
			}
		case <-time.After(time.Minute):
			t.Error("it is still there after a minute")
		}
		s.c.Crash(holder, 0, false)
		// Others may have the write, whose answer was lost with the node.
		if err := <-first; err != nil && !errors.As(err, new(*kv.AmbiguousError)) {
			t.Error(err)
		}
		if most := s.most(gateway, 10*time.Second); most > 10*time.Second {
			t.Errorf("a write took %s", most)
		}
	})
}
