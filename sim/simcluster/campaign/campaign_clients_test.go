package campaign_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/kv"
	"meridian/sim/simcluster/simtest"
)

// client is one worker's connection, which moves to another node when it breaks.
type client struct {
	k    *campaign
	id   int
	dice *rand.Rand
	conn *pgx.Conn
	at   int
	// other is the client that is told of a relayed write.
	other *client
	// limit is how long the client waits for an answer; zero is opTimeout.
	limit time.Duration
	// explain, if any, recognizes errors that the workload expects, and returns the outcome that they imply.
	explain func(*pgconn.PgError) (history.Outcome, bool)
}

func (cl *client) close() {
	if cl.other != nil {
		cl.other.close()
	}
	if cl.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		cl.conn.Close(ctx)
		cl.conn = nil
	}
}

func (cl *client) connect() error {
	if cl.conn != nil && !cl.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cl.at = cl.dice.IntN(cl.k.c.Len())
	conn, err := cl.k.c.Connect(ctx, cl.at, "defaultdb")
	if err != nil {
		return err
	}
	cl.conn = conn
	return nil
}

// do runs f on a connection and returns its outcome.
func (cl *client) do(what string, f func(ctx context.Context, conn *pgx.Conn) error) (history.Outcome, string) {
	if err := cl.connect(); err != nil {
		cl.k.count(&cl.k.codes, "no connection")
		return history.Failed, "no connection"
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(cl.limit, opTimeout))
	defer cancel()
	node := cl.k.c.Machines[cl.at].Name
	err := f(ctx, cl.conn)
	if err == nil {
		cl.k.count(&cl.k.done, what)
		return history.OK, node
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		cl.close()
		// pgconn.SafeToRetry is of no use here: it is true also for a COMMIT whose answer did not come ("conn closed").
		cl.k.count(&cl.k.codes, "lost")
		return history.Unknown, node + ": " + err.Error()
	}
	cl.k.count(&cl.k.codes, pg.Code)
	note := fmt.Sprintf("%s: %s %s %s", node, pg.Code, pg.Message, pg.Detail)
	if cl.conn.PgConn().TxStatus() != 'I' && !cl.conn.IsClosed() {
		if _, err := cl.conn.Exec(ctx, "ROLLBACK"); err != nil {
			cl.close()
		}
	}
	if cl.explain != nil {
		if how, ok := cl.explain(pg); ok {
			return how, note
		}
	}
	switch pg.Code {
	case "40003", "57P01", "57014":
		return history.Unknown, note
	case "40001", "40P01", "23505", "57P03":
		return history.Failed, note
	}
	cl.k.problem("%s: %s", what, note)
	return history.Unknown, note
}

// inTxn runs f between BEGIN and COMMIT.
func inTxn(ctx context.Context, conn *pgx.Conn, f func() error) error {
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		return fmt.Errorf("COMMIT said %s", tag)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// transfer moves money in one of the ways in which applications do it.
func (cl *client) transfer() {
	from, to := cl.dice.IntN(accounts)+1, cl.dice.IntN(accounts-1)+1
	if to >= from {
		to++
	}
	amount, style := cl.dice.IntN(10)+1, cl.dice.IntN(4)
	cl.do("transfer", func(ctx context.Context, conn *pgx.Conn) error {
		switch style {
		case 0: // one statement
			_, err := conn.Exec(ctx, "UPDATE bank SET balance = balance + CASE WHEN id = $1 THEN -$3::int ELSE $3::int END WHERE id IN ($1, $2)", from, to, amount)
			return err
		case 1: // read, compute, write
			return inTxn(ctx, conn, func() error {
				var a, b int
				if err := conn.QueryRow(ctx, "SELECT balance FROM bank WHERE id = $1", from).Scan(&a); err != nil {
					return err
				}
				if err := conn.QueryRow(ctx, "SELECT balance FROM bank WHERE id = $1", to).Scan(&b); err != nil {
					return err
				}
				if _, err := conn.Exec(ctx, "UPDATE bank SET balance = $2 WHERE id = $1", from, a-amount); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "UPDATE bank SET balance = $2 WHERE id = $1", to, b+amount)
				return err
			})
		case 2: // locked first
			return inTxn(ctx, conn, func() error {
				if _, err := conn.Exec(ctx, "SELECT balance FROM bank WHERE id IN ($1, $2) FOR UPDATE", from, to); err != nil {
					return err
				}
				if _, err := conn.Exec(ctx, "UPDATE bank SET balance = balance - $2 WHERE id = $1", from, amount); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "UPDATE bank SET balance = balance + $2 WHERE id = $1", to, amount)
				return err
			})
		}
		// With a mistake taken back.
		return inTxn(ctx, conn, func() error {
			for _, s := range []struct {
				q    string
				args []any
			}{
				{"UPDATE bank SET balance = balance - $2 WHERE id = $1", []any{from, amount}},
				{"SAVEPOINT s", nil},
				{"UPDATE bank SET balance = balance + 1000 WHERE id = $1", []any{to}},
				{"ROLLBACK TO SAVEPOINT s", nil},
				{"UPDATE bank SET balance = balance + $2 WHERE id = $1", []any{to, amount}},
			} {
				if _, err := conn.Exec(ctx, s.q, s.args...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// audit adds up the accounts, in one statement or two, and counts pairs.
func (cl *client) audit() {
	switch cl.dice.IntN(3) {
	case 0:
		var n, sum int
		how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(*), sum(balance) FROM bank").Scan(&n, &sum)
		})
		if how == history.OK && (n != accounts || sum != accounts*balance) {
			cl.k.problem("bank: %d accounts hold %d, seen from %s", n, sum, note)
		}
	case 1:
		var low, high int
		how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
			return inTxn(ctx, conn, func() error {
				if err := conn.QueryRow(ctx, "SELECT sum(balance) FROM bank WHERE id <= 10").Scan(&low); err != nil {
					return err
				}
				return conn.QueryRow(ctx, "SELECT sum(balance) FROM bank WHERE id > 10").Scan(&high)
			})
		})
		if how == history.OK && low+high != accounts*balance {
			cl.k.problem("bank: %d and %d, in one transaction, seen from %s", low, high, note)
		}
	case 2:
		var a, b int
		how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM pa), (SELECT count(*) FROM pb)").Scan(&a, &b)
		})
		if how == history.OK && a != b {
			cl.k.problem("pairs: %d and %d, seen from %s", a, b, note)
		}
	}
}

// register does one operation on one row.
func (cl *client) register() {
	op := history.Op{Key: cl.dice.IntN(registers) + 1}
	switch n := cl.dice.IntN(10); {
	case n < 5:
		op.Kind = history.Read
	case n < 8:
		op.Kind, op.Value = history.Write, cl.k.ids.Add(1)
	default:
		op.Kind, op.Value = history.CAS, cl.k.ids.Add(1)
		// It expects the value that was read a moment ago.
		if how, _ := cl.do("read", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT v FROM reg WHERE id = $1", op.Key).Scan(&op.Expected)
		}); how != history.OK {
			return
		}
	}
	cl.operate(op, false)
}

// relay writes a row, and as soon as that is acknowledged, reads it through another gateway, which may have had no
// message since: if its clock is behind, only its uncertainty interval makes the read find the row (I4).
func (cl *client) relay() {
	k := cl.k
	if cl.other == nil {
		cl.other = &client{k: k, id: int(k.ids.Add(1)), dice: cl.dice, limit: cl.limit, explain: cl.explain}
	} else if cl.dice.IntN(8) == 0 {
		cl.other.close()
	}
	if cl.other.connect() != nil {
		return
	}
	key := cl.dice.IntN(registers) + 1
	if cl.operate(history.Op{Key: key, Kind: history.Write, Value: k.ids.Add(1)}, false) == history.OK {
		cl.other.operate(history.Op{Key: key, Kind: history.Read}, cl.dice.IntN(4) > 0)
	}
}

// operate does an operation on a register. A read between BEGIN and COMMIT has its gateway's time; a single one may have
// its leaseholder's.
func (cl *client) operate(op history.Op, txn bool) history.Outcome {
	k := cl.k
	op.Client, op.When = cl.id, k.now()
	o := k.regs.Begin(op)
	var result int64
	var swapped bool
	how, note := cl.do([]string{"read", "write", "cas"}[op.Kind], func(ctx context.Context, conn *pgx.Conn) error {
		switch op.Kind {
		case history.Read:
			read := func() error { return conn.QueryRow(ctx, "SELECT v FROM reg WHERE id = $1", op.Key).Scan(&result) }
			if txn {
				return inTxn(ctx, conn, read)
			}
			return read()
		case history.Write:
			_, err := conn.Exec(ctx, "UPDATE reg SET v = $2 WHERE id = $1", op.Key, op.Value)
			return err
		}
		tag, err := conn.Exec(ctx, "UPDATE reg SET v = $3 WHERE id = $1 AND v = $2", op.Key, op.Expected, op.Value)
		swapped = tag.RowsAffected() == 1
		return err
	})
	switch how {
	case history.OK:
		k.regs.OK(o, result, swapped)
		o.Note = note
	case history.Failed:
		k.regs.Failed(o, note)
	default:
		k.regs.Unknown(o, note)
	}
	return how
}

// pair inserts one row into each of two ranges, or none.
func (cl *client) pair() {
	k := cl.k
	id := k.ids.Add(1)
	how, note := cl.do("pair", func(ctx context.Context, conn *pgx.Conn) error {
		return inTxn(ctx, conn, func() error {
			if _, err := conn.Exec(ctx, "INSERT INTO pa VALUES ($1, $2)", id, cl.at); err != nil {
				return fmt.Errorf("pa: %w", err)
			}
			_, err := conn.Exec(ctx, "INSERT INTO pb VALUES ($1, $2)", id, cl.at)
			return err
		})
	})
	if strings.Contains(note, "23505") {
		k.problem("pair %d: %s", id, note)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pairs == nil {
		k.pairs = map[int64]ending{}
	}
	k.pairs[id] = ending{how, fmt.Sprintf("%s %s", k.now(), note)}
}

// uniqueInsert inserts a name that others insert too.
func (cl *client) uniqueInsert() {
	k := cl.k
	id := k.ids.Add(1)
	// The names move on with time, so that there is always one that is free.
	name := fmt.Sprintf("name%d", int(k.now().Seconds()*float64(cmp.Or(k.newNames, 4)))+cl.dice.IntN(uniqueNames))
	how, note := cl.do("unique", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "INSERT INTO uq VALUES ($1, $2)", id, name)
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unique == nil {
		k.unique = map[int64]uniqueRow{}
	}
	k.unique[id] = uniqueRow{name, ending{how, fmt.Sprintf("%s %s", k.now(), note)}}
}

// count adds to one counter, or to two in two ranges.
func (cl *client) count() {
	k := cl.k
	a, b := cl.dice.IntN(counters), cl.dice.IntN(counters)
	how, _ := cl.do("count", func(ctx context.Context, conn *pgx.Conn) error {
		if a == b {
			_, err := conn.Exec(ctx, "UPDATE ctr SET n = n + 1 WHERE id = $1", a)
			return err
		}
		_, err := conn.Exec(ctx, "UPDATE ctr SET n = n + 1 WHERE id IN ($1, $2)", a, b)
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.added {
		if i == a || i == b {
			switch how {
			case history.OK:
				k.added[i].sure++
			case history.Unknown:
				k.added[i].maybe++
			}
		}
	}
}

// administer moves leases and splits ranges.
func (cl *client) administer() {
	k := cl.k
	time.Sleep(time.Duration(cl.dice.IntN(1000)) * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if cl.dice.IntN(4) == 0 {
		table := []string{"bank", "reg", "pa", "pb", "ctr"}[cl.dice.IntN(5)]
		at := cl.dice.IntN(20)
		if table[0] == 'p' {
			at = cl.dice.IntN(int(k.ids.Load()))
		}
		cl.do("split", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s SPLIT AT VALUES (%d)", table, at))
			return err
		})
		return
	}
	i := cl.dice.IntN(k.c.Len())
	n := k.c.Node(i)
	if n == nil || n.Store() == nil {
		return
	}
	admin := func(what string, r kv.Request) {
		if _, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{r}}); err == nil {
			k.count(&k.done, what)
		}
	}
	ranges, err := k.c.Ranges(ctx, i)
	if err != nil || len(ranges) == 0 {
		return
	}
	d := ranges[cl.dice.IntN(len(ranges))]
	if cl.dice.IntN(4) == 0 {
		if err := simtest.CompareSome(k.c, cl.dice); err != nil {
			k.problem("%v", err)
		}
		k.count(&k.done, "compare")
	}
	switch cl.dice.IntN(8) {
	case 0:
		admin("merge", &kv.AdminMergeRequest{Key: d.Start, Of: d.Span()})
	case 1:
		// One replica moves to a node that has none.
		var to []kv.ReplicaTarget
		out := cl.dice.IntN(len(d.Replicas))
		spare := k.spare(&d)
		if len(spare) == 0 {
			return
		}
		for i, r := range d.Replicas {
			if i == out {
				r.Node = spare[cl.dice.IntN(len(spare))]
			}
			to = append(to, kv.ReplicaTarget{Node: r.Node, Store: kv.StoreID(r.Node)})
		}
		admin("move", &kv.AdminChangeReplicasRequest{Key: d.Start, Targets: to, Of: d.Span()})
	default:
		admin("lease", &kv.AdminTransferLeaseRequest{Key: d.Start, Target: d.Replicas[cl.dice.IntN(len(d.Replicas))].Node, Of: d.Span()})
	}
}
