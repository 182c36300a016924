package replica

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/version"
)

// TestCommits: random commits against a list of all of them. Each answer is right, and a transaction that is said not to have committed has not (replica.R13).
func TestCommits(t *testing.T) {
	forgotten := 0
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 1))
		type commit struct {
			Commit
			first clock.Timestamp
		}
		var c Commits
		var all []commit
		now := int64(time.Hour)
		begin, age := dice.IntN(2000), time.Duration(dice.Int64N(int64(time.Minute)))
		step := []int64{1000, int64(time.Millisecond), int64(time.Second)}[seed%3]
		for n := range 3000 {
			if now += dice.Int64N(2 * step); n == begin || n >= begin && dice.IntN(1000) == 0 {
				c.Begin(clock.Timestamp{Wall: now})
			}
			x := commit{first: clock.Timestamp{Wall: now + 1 - dice.Int64N(int64(age)+1)}}
			x.ID[0], x.ID[1], x.At = byte(n), byte(n>>8), clock.Timestamp{Wall: now + 1 + dice.Int64N(int64(time.Second))}
			c.Add([]Commit{x.Commit})
			all = append(all, x)
		}
		if len(c.last) > maxCommits {
			t.Fatalf("%d are remembered", len(c.last))
		}
		for i, x := range all {
			at, remembers := c.Of(x.ID, x.first)
			switch {
			case !at.IsZero() && (at != x.At || !remembers):
				t.Fatalf("seed %d, commit %d: at %s, not %s", seed, i, at, x.At)
			case at.IsZero() && remembers && i >= begin:
				t.Fatalf("seed %d, commit %d is forgotten, and said not to be", seed, i)
			case at.IsZero() && len(all)-i <= minCommits:
				t.Fatalf("seed %d, commit %d is forgotten", seed, i)
			case at.IsZero():
				forgotten++
			}
		}
		if _, remembers := c.Of(kv.TxnID{15: 1}, clock.Timestamp{Wall: now + int64(time.Minute)}); !remembers {
			t.Fatal("of a transaction that has just begun not all is known")
		}
	}
	t.Log(forgotten, "were forgotten")
}

// TestCommitsBegin: a replica knows of the transactions that have begun after it was opened, has taken over a snapshot or has absorbed another range, as far as clocks can tell, and of none before the cluster
// acts by the version whose commands say what they commit.
func TestCommitsBegin(t *testing.T) {
	physical := &stopped{now: time.Unix(1000, 0)}
	at := func(d time.Duration) clock.Timestamp { return clock.Timestamp{Wall: physical.now.Add(d).UnixNano()} }
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	defer h.Group.Stop()
	e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
	must(t, err)
	defer e.Close()

	v := version.NewHandle(version.Built(), version.SupportedLeases.Since())
	o := &Options{Host: h, Clock: clock.New(physical, time.Second), Engine: e, Store: &splitStore{}, Metrics: &Metrics{}, Node: 1, StoreID: 1, Version: v}
	b := e.NewBatch()
	Bootstrap(b.Put, &kv.RangeDescriptor{ID: 2, Start: keys.TablePrefix, End: keys.Max, Generation: 1, NextReplica: 2,
		Replicas: []kv.ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1, Type: kv.Voter}}}, Stats{})
	must(t, b.Commit(true))
	r, err := New(o, 2, 1)
	must(t, err)
	knows := func(what string, first clock.Timestamp, want bool) {
		t.Helper()
		if _, got := r.CommitOf(kv.TxnID{1}, first); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	r.remember([]Commit{{ID: kv.TxnID{2}, At: at(0)}})
	knows("before the version", at(time.Hour), false)
	if got, _ := r.CommitOf(kv.TxnID{2}, at(0)); got != at(0) {
		t.Errorf("what an early command has said is forgotten: %s", got)
	}
	v.Raise(version.RememberedCommits.Since())
	r.remember([]Commit{{ID: kv.TxnID{3}, At: at(0)}})
	knows("a clock may have shown it before", at(time.Second), false)
	knows("begun afterwards", at(time.Second+1), true)
	physical.now = physical.now.Add(time.Minute)
	knows("later", at(0), true)
	must(t, r.loadReplicated())
	knows("begun before the state was replaced", at(time.Second), false)
	knows("begun afterwards", at(time.Second+1), true)
	physical.now = physical.now.Add(time.Minute)
	if r, err = New(o, 2, 1); err != nil {
		t.Fatal(err)
	}
	knows("begun before the process", at(time.Second), false)
	knows("begun afterwards", at(time.Second+1), true)
	if _, known := r.CommitOf(kv.TxnID{3}, at(-2*time.Minute)); known {
		t.Error("an earlier process's memory was not lost")
	}
}
