package leaderkv_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// TestLargeCommitGatewayDies: a gateway dies at each step of a commit whose record lists writes that leave together with it: after its
// n-th message was sent, or answered, or while some of what is under way arrives later. In each case the next reader sees all of
// the transaction or nothing of it, and so does everybody after that; what was acknowledged is there (I1, I2).
func TestLargeCommitGatewayDies(t *testing.T) {
	for _, c := range []struct {
		name        string
		early       bool // the writes leave before the commit
		rows, bytes int
		late        int // which of the messages that were under way arrive after the death: each late-th
	}{
		{"12 large rows at the commit", false, 12, 400 << 10, 3},
		{"12 large rows, sent early", true, 12, 400 << 10, 2},
		{"20,000 rows", false, 20_000, 10, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			outcomes := map[string]int{}
			for _, lost := range []bool{false, true} {
				steps := 1
				for n := 0; n <= steps; n++ {
					synctest.Test(t, func(t *testing.T) {
						x := &dying{t: t, at: n, lost: lost, late: c.late}
						steps = x.run(c.early, c.rows, c.bytes)
						outcomes[x.outcome]++
					})
				}
			}
			t.Log(outcomes)
			if len(outcomes) < 3 {
				t.Errorf("the outcomes were %v: the deaths are not where they should be", outcomes)
			}
		})
	}
}

// dying is a gateway that dies after some messages.
type dying struct {
	t    *testing.T
	at   int  // after so many messages of a commit
	lost bool // the last one does not arrive; else its answer does not
	late int

	mu      sync.Mutex
	counts  bool
	sent    int
	dead    chan struct{}
	outcome string
}

const half50 = 50 * time.Millisecond

// wire takes 50 ms in each direction. From a death on nothing goes to the gateway, and of what it has sent only some arrives, late.
func (x *dying) wire(ctx context.Context, m *leaderkv.Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
	if m.From != "A" {
		time.Sleep(half50)
		r, err := deliver(ctx)
		time.Sleep(half50)
		return r, err
	}
	x.mu.Lock()
	select {
	case <-x.dead:
		x.mu.Unlock()
		return nil, errDead
	default:
	}
	n := -1
	if x.counts {
		n = x.sent
		x.sent++
	}
	x.mu.Unlock()
	if n == x.at && x.lost {
		close(x.dead)
		return nil, errDead
	}
	time.Sleep(half50)
	select {
	case <-x.dead:
		if n%x.late != 0 {
			return nil, errDead
		}
		time.Sleep(time.Duration(n%5) * 1500 * time.Millisecond)
		ctx = context.Background()
	default:
	}
	r, err := deliver(ctx)
	if n == x.at {
		x.mu.Lock()
		select {
		case <-x.dead:
		default:
			close(x.dead)
		}
		x.mu.Unlock()
	}
	time.Sleep(half50)
	select {
	case <-x.dead:
		return nil, errDead
	default:
		return r, err
	}
}

// run returns how many messages the commit has sent.
func (x *dying) run(early bool, rows, bytes int) int {
	t := x.t
	x.dead = make(chan struct{})
	c, err := leaderkv.New(leaderkv.Options{Bounds: []string{"k00005", "k00009", "k10000"}, Wire: x.wire})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	o := txn.Options{}
	if early {
		o.BufferBytes = 1
	}
	db, stop := c.Gateway("A", o)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		<-x.dead
		cancel()
		stop()
		close(gone)
	}()
	key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("k%05d", i)) }
	done := make(chan error, 1)
	go func() {
		tx := db.Begin(txn.TxnOptions{})
		x.mu.Lock()
		x.counts = early
		x.mu.Unlock()
		each := max(rows/6, 1)
		for i := 0; i < rows; i += each {
			var b txn.WriteBatch
			for j := i; j < min(i+each, rows); j++ {
				b.Put(key(j), make([]byte, bytes))
			}
			if err := tx.Write(ctx, &b); err != nil {
				done <- err
				return
			}
		}
		x.mu.Lock()
		x.counts = true
		x.mu.Unlock()
		done <- tx.Commit(ctx)
	}()
	err = <-done
	x.mu.Lock()
	sent := x.sent
	select {
	case <-x.dead:
	default:
		close(x.dead) // after the answer: nothing is cleaned up
	}
	x.mu.Unlock()
	<-gone
	ctx = context.Background()
	count := func() (n int) {
		reader, stop := c.Gateway("C", txn.Options{})
		defer stop()
		err := reader.Run(ctx, txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
			n = 0
			for s := (&keys.Span{Start: keys.Key("k"), End: keys.Key("l")}); s != nil; {
				page, rest, err := tx.Scan(ctx, txn.ScanOptions{Span: *s, MaxRows: 4000})
				if err != nil {
					return err
				}
				n, s = n+len(page), rest
			}
			return nil
		})
		if err != nil {
			t.Errorf("dies at %d, lost %t: the reader: %v", x.at, x.lost, err)
		}
		return n
	}
	first := count()
	time.Sleep(20 * time.Second) // whatever was late has arrived
	again := count()
	if first != 0 && first != rows || again != first {
		t.Errorf("dies at %d, lost %t: %d of %d rows are seen, then %d", x.at, x.lost, first, rows, again)
	}
	switch {
	case err == nil:
		x.outcome = "acknowledged"
		if first != rows {
			t.Errorf("dies at %d, lost %t: acknowledged, and %d rows are there", x.at, x.lost, first)
		}
	case first > 0:
		x.outcome = "committed by recovery"
	default:
		x.outcome = "aborted"
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	return sent
}
