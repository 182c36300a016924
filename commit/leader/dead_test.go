package leader

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// seenRows is what a scan has answered.
type seenRows struct {
	at    clock.Timestamp
	start keys.Key
	rows  []kv.KeyValue
	end   keys.Key
}

// TestDeadRuns: scans of a range where most keys are deleted, while others write, find at their timestamps what a reader finds there that looks at each key
// (leader.P32). Versions never change (mvcc.M4), so that can be looked up afterwards.
func TestDeadRuns(t *testing.T) {
	for seed := range int64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDeadRuns(t, seed) })
		})
	}
}

func testDeadRuns(t *testing.T, seed int64) {
	c, stop := newCluster(t, seed, 3*time.Millisecond)
	defer stop()
	ctx := context.Background()
	const n = 300
	key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("k%03d", i)) }
	for i := range n {
		for _, r := range []kv.Request{&kv.PutRequest{Key: key(i), Value: []byte("done")}, &kv.DeleteRequest{Key: key(i)}} {
			if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{r}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var mu sync.Mutex
	var all []seenRows
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { // reads
			for range 150 {
				time.Sleep(time.Duration(c.intn(2000)) * time.Microsecond)
				x := c.begin()
				if c.intn(2) == 0 { // an old snapshot; what is newer must not be uncertain, or it would be moved
					x.txn.UncertaintyLimit = x.txn.ReadTimestamp
					time.Sleep(time.Duration(c.intn(200)) * time.Millisecond)
				}
				lock, most := kv.NoLock, int64(c.intn(3))
				start := 0
				if c.intn(3) == 0 {
					start = c.intn(n)
				}
				if c.intn(8) == 0 {
					lock, most = kv.Exclusive, 0
				}
				x.reverse = c.intn(2) == 0
				got, err := x.scan(ctx, string(key(start)), "l", lock, most)
				if err != nil {
					continue // the test is about answers
				}
				s := seenRows{x.txn.ReadTimestamp, key(start), got.Rows, keys.Key("l")}
				part := readPart(keys.Span{Start: s.start, End: s.end}, got.Resume, x.reverse)
				if s.start, s.end = part.Start, part.End; x.reverse {
					slices.Reverse(s.rows)
				}
				mu.Lock()
				all = append(all, s)
				mu.Unlock()
				if lock != kv.NoLock {
					x.rollback(ctx)
				}
			}
		})
	}
	for w := range 3 {
		wg.Go(func() { // writes
			for i := range 150 {
				time.Sleep(time.Duration(c.intn(4000)) * time.Microsecond)
				k := key(c.intn(n))
				put := &kv.PutRequest{Key: k, Value: fmt.Appendf(nil, "%d.%d", w, i)}
				if c.intn(2) == 0 {
					if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{put}}); err != nil {
						t.Error(err)
					}
				} else {
					x := c.begin()
					x.parallel = c.intn(2) == 0
					x.put(string(k), put.Value)
					if c.intn(2) == 0 && x.lay(ctx) != nil || c.intn(6) == 0 || x.commit(ctx) != nil {
						_ = x.rollback(ctx)
					}
				}
				if c.intn(4) > 0 {
					continue
				}
				for j := c.intn(n); j < n && c.intn(40) > 0; j++ { // as a queue's workers do
					if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.DeleteRequest{Key: key(j)}}}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if c.o.Metrics.DeadRuns.Load() == 0 {
		t.Error("no run was passed")
	}
	for _, s := range all {
		r := mvcc.NewReader(c.engine)
		want, err := r.Scan(s.start, s.end, &mvcc.ScanOptions{ReadOptions: mvcc.ReadOptions{Timestamp: s.at, Inconsistent: true}})
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(s.rows, want.Rows, func(a, b kv.KeyValue) bool {
			return a.Key.Equal(b.Key) && string(a.Value) == string(b.Value)
		}) {
			t.Errorf("a scan at %s from %s: %v, want %v", s.at, s.start, s.rows, want.Rows)
		}
	}
	t.Logf("%d scans, %d runs passed", len(all), c.o.Metrics.DeadRuns.Load())
}

// TestDeadRunsAreNotRead: the first row behind many deleted ones is found without reading these, as long as the workers of a queue delete one after the other, and add some.
func TestDeadRunsAreNotRead(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		t.Run(fmt.Sprintf("reverse %t", reverse), func(t *testing.T) { testDeadRunsAreNotRead(t, reverse) })
	}
}

func testDeadRunsAreNotRead(t *testing.T, reverse bool) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		const n = 3000
		key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("k%05d", i)) }
		send := func(r kv.Request) *kv.BatchResponse {
			t.Helper()
			time.Sleep(time.Millisecond)
			resp, err := c.Send(ctx, &kv.Batch{Header: kv.Header{MaxKeys: 1}, Requests: []kv.Request{r}})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		for i := range n {
			send(&kv.PutRequest{Key: key(i), Value: []byte("new")})
		}
		var most int64
		var worst int
		for i := range n {
			before := c.engine.Steps()
			rows := send(&kv.ScanRequest{Start: keys.Key("k"), End: keys.Key("l"), Reverse: reverse}).Responses[0].(*kv.ScanResponse).Rows
			if len(rows) != 1 {
				t.Fatalf("%d rows behind %d deleted ones", len(rows), i)
			}
			if i > 100 {
				if steps := c.engine.Steps() - before; steps > most {
					most, worst = steps, i
				}
			}
			send(&kv.DeleteRequest{Key: rows[0].Key})
			if i%10 == 9 { // one more urgent than what is done
				at := i * 7919 % n % i
				if reverse {
					at = n - 1 - at
				}
				send(&kv.PutRequest{Key: key(at), Value: []byte("new")})
			}
		}
		t.Logf("at most %d steps, after %d", most, worst)
		if most > 200 {
			t.Errorf("%d steps behind %d deleted rows", most, worst)
		}
	})
}

// TestDeadRunsModel: whatever the order in which readers begin, commands are applied and noted, and readers tell of runs, no run has a key with a value.
func TestDeadRunsModel(t *testing.T) {
	passed, together := 0, 0
	for seed := range int64(100) {
		rng := rand.New(rand.NewSource(seed))
		const n = 40
		d := &dead{metrics: &Metrics{}}
		key := func(i int) keys.Key { return keys.Key{byte(i)} }
		var live, changed [n]int // the value, and when it changed; 0: none
		type reader struct {
			since uint64
			at    int
			live  [n]int
		}
		var readers []reader
		var applied []keys.Key // not noted yet
		added := 0
		for now := 1; now < 2000; now++ {
			switch rng.Intn(5) {
			case 0: // a command is applied
				k := rng.Intn(n)
				if live[k] = 0; rng.Intn(3) == 0 {
					live[k] = now
				}
				changed[k] = now
				applied = append(applied, key(k))
			case 1: // and noted
				if len(applied) > 0 {
					d.applied(&kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: applied[0]}}})
					applied = applied[1:]
				}
			case 2: // The state is made after the number is read.
				readers = append(readers, reader{since: d.Since(), at: -1})
			case 3:
				for i := range readers {
					if readers[i].at < 0 {
						readers[i].live, readers[i].at = live, now
						break
					}
				}
			case 4: // a reader tells
				if len(readers) == 0 || readers[0].at < 0 {
					continue
				}
				r := readers[0]
				readers = readers[1:]
				for from := 0; from < n; from++ {
					to := from
					for to < n && r.live[to] == 0 {
						to++
					}
					if to > from {
						d.Found(keys.Span{Start: key(from), End: key(to)}, clock.Timestamp{Wall: int64(r.at)}, clock.Timestamp{Wall: int64(r.at)}, r.since)
						added++
						from = to
					}
				}
			}
			// A command that is not noted yet has its latches: who has to see it waits.
			for k := range n {
				at := clock.Timestamp{Wall: int64(now)}
				if k%3 == 0 {
					at.Wall -= int64(rng.Intn(200))
				}
				run, deleted, _ := d.Past(key(k), at, k%2 == 0)
				if run.Start == nil {
					continue
				}
				passed++
				if at.Less(deleted) {
					t.Fatalf("seed %d, %d: a reader at %s passes a run until %s", seed, now, at, deleted)
				}
				if d.find(run.End)-d.find(run.Start) > 1 {
					together++
				}
				for k := range n {
					if run.Contains(key(k)) && (live[k] != 0 || deleted.Wall < int64(changed[k])) && !slices.ContainsFunc(applied, key(k).Equal) {
						t.Fatalf("seed %d, %d: key %d has changed at %d to %d, and is in the run %s until %s", seed, now, k, changed[k], live[k], run, deleted)
					}
				}
			}
			if !slices.IsSortedFunc(d.runs, func(a, b run) int { return a.End.Compare(b.Start) }) {
				t.Fatalf("seed %d: %v", seed, d.runs)
			}
		}
		if added == 0 {
			t.Fatal("no run was found")
		}
	}
	if passed == 0 || together == 0 {
		t.Errorf("%d runs were passed, %d of several that follow each other", passed, together)
	}
}
