package kill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/workload"
)

const (
	ledgers          = 3
	writersPerLedger = 2
	statementLimit   = 15 * time.Second
)

// ledger records the outcomes of its writers' transactions.
type ledger struct {
	urls []string
	// prefix begins the names of its tables. without has those of the protocol fast_paxos: two of three ledgers, so that some transactions are over two protocols, and the counters.
	prefix  string
	without bool

	mu     sync.Mutex
	acked  map[int64]bool
	failed map[int64]bool
	tried  int
	// done has the times of acknowledgements, for each ledger.
	done [ledgers][]time.Time
	last error
}

func newLedger(urls []string) *ledger {
	return &ledger{urls: urls, acked: make(map[int64]bool), failed: make(map[int64]bool)}
}

// newLedgerWithoutMaster is of tables of the protocol fast_paxos, and one of the leader's.
func newLedgerWithoutMaster(urls []string) *ledger {
	l := newLedger(urls)
	l.prefix, l.without = "fast_", true
	return l
}

// setup makes the tables.
func (l *ledger) setup(ctx context.Context, conn *pgx.Conn) error {
	with := func(all bool) string {
		if l.without && all {
			return " WITH (commit_protocol = 'fast_paxos')"
		}
		return ""
	}
	for i := range ledgers {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE %sledger_%d (id bigint PRIMARY KEY, writer int NOT NULL)%s", l.prefix, i, with(i < ledgers-1))); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE %scounters (writer int PRIMARY KEY, n bigint NOT NULL)%s", l.prefix, with(true))); err != nil {
		return err
	}
	for w := range ledgers * writersPerLedger {
		if _, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %scounters VALUES ($1, 0)", l.prefix), w); err != nil {
			return err
		}
	}
	return nil
}

// run writes until the context ends. Generations keep the identifiers of several runs apart.
func (l *ledger) run(ctx context.Context, generation int) {
	var all sync.WaitGroup
	for w := range ledgers * writersPerLedger {
		all.Go(func() { l.write(ctx, generation, w) })
	}
	all.Wait()
}

// write is one writer: it inserts a pair into its ledger and the next one.
func (l *ledger) write(ctx context.Context, generation, w int) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	own := w % ledgers
	first := fmt.Sprintf("INSERT INTO %sledger_%d VALUES ($1, $2)", l.prefix, own)
	second := fmt.Sprintf("INSERT INTO %sledger_%d VALUES ($1, $2)", l.prefix, (own+1)%ledgers)
	count := fmt.Sprintf("UPDATE %scounters SET n = n + 1 WHERE writer = $1", l.prefix)
	url := w
	for n := int64(0); ctx.Err() == nil; n++ {
		id := int64(generation)*1e12 + int64(w)*1e9 + n
		if conn == nil || conn.IsClosed() {
			limit, cancel := context.WithTimeout(ctx, 3*time.Second)
			c, err := pgx.Connect(limit, l.urls[url%len(l.urls)])
			cancel()
			if err != nil {
				l.note(err)
				url++
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			conn = c
		}
		// A transaction that was begun is not cut short when the writing ends.
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementLimit)
		committing := false
		err := func() error {
			tx, err := conn.Begin(limit)
			if err != nil {
				return err
			}
			for _, q := range []struct {
				sql  string
				args []any
			}{{first, []any{id, w}}, {second, []any{-id - 1, w}}, {count, []any{w}}} {
				if _, err := tx.Exec(limit, q.sql, q.args...); err != nil {
					if !conn.IsClosed() {
						tx.Rollback(limit)
					}
					return err
				}
			}
			committing = true
			return tx.Commit(limit)
		}()
		cancel()
		l.mu.Lock()
		l.tried++
		switch {
		case err == nil:
			l.acked[id] = true
			l.done[own] = append(l.done[own], time.Now())
		case !committing || certain(err):
			l.failed[id] = true
		}
		l.mu.Unlock()
		if err != nil {
			l.note(err)
			if conn.IsClosed() {
				url++
			}
		}
	}
}

// certain reports that by the server's error a commit did not happen.
func certain(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !workload.Unknown(err)
}

func (l *ledger) note(err error) {
	l.mu.Lock()
	l.last = err
	l.mu.Unlock()
}

func (l *ledger) lastError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// gap returns the longest time in an interval in which some ledger had no acknowledged write.
func (l *ledger) gap(from, to time.Time) (worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, done := range l.done {
		before := from
		for _, t := range done {
			if t.Before(from) || t.After(to) {
				continue
			}
			worst, before = max(worst, t.Sub(before)), t
		}
		worst = max(worst, to.Sub(before))
	}
	return worst
}

func (l *ledger) count() (acked, failed, tried int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked), len(l.failed), l.tried
}

// rows are the contents of the tables.
type rows struct {
	first, second map[int64]int64 // id -> writer, of every ledger
	counters      map[int64]int64
}

// read reads all tables in one transaction.
func (l *ledger) read(ctx context.Context, conn *pgx.Conn) (*rows, error) {
	r := &rows{first: make(map[int64]int64), second: make(map[int64]int64), counters: make(map[int64]int64)}
	err := workload.InTxn(ctx, conn, func(tx pgx.Tx) error {
		clear(r.first)
		clear(r.second)
		clear(r.counters)
		scan := func(sql string, f func(a, b int64)) error {
			q, err := tx.Query(ctx, sql)
			if err != nil {
				return err
			}
			var a, b int64
			_, err = pgx.ForEachRow(q, []any{&a, &b}, func() error { f(a, b); return nil })
			return err
		}
		for i := range ledgers {
			if err := scan(fmt.Sprintf("SELECT id, writer FROM %sledger_%d", l.prefix, i), func(id, w int64) {
				if id >= 0 {
					r.first[id] = w
				} else {
					r.second[-id-1] = w
				}
			}); err != nil {
				return err
			}
		}
		return scan(fmt.Sprintf("SELECT writer, n FROM %scounters", l.prefix), func(w, n int64) { r.counters[w] = n })
	})
	return r, err
}

// verify compares the tables with the outcomes that the writers know; it returns every contradiction, sorted.
func (l *ledger) verify(r *rows) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.acked {
		if _, ok := r.first[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("acknowledged %d is lost", id))
		}
	}
	for id := range l.failed {
		if _, ok := r.first[id]; ok {
			wrong = append(wrong, fmt.Sprintf("failed %d is there", id))
		}
	}
	pairs := make(map[int64]int64)
	for id, w := range r.first {
		if _, ok := r.second[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%d has no pair", id))
		}
		pairs[w]++
	}
	for id := range r.second {
		if _, ok := r.first[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%d is only a pair", id))
		}
	}
	for w, n := range r.counters {
		if n != pairs[w] {
			wrong = append(wrong, fmt.Sprintf("writer %d counted %d, but %d pairs are there", w, n, pairs[w]))
		}
	}
	slices.Sort(wrong)
	return wrong
}
