package anomalies

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"meridian/history"
)

// Lists: rows whose text is a list of numbers, in two tables. Keys retire when their lists have become long.

const (
	listWindow  = 6  // keys in use at a time
	listAppends = 30 // about so many elements make a list
)

type lists struct {
	h       history.Transactions
	next    atomic.Int64 // the last number given to an element
	appends atomic.Int64
}

func listTable(id int) string { return "anomaly_lists" + strconv.Itoa(id%2) }

func listKey(id int) string { return "l" + strconv.Itoa(id) }

func parseList(s string) []int64 {
	out := []int64{}
	for _, e := range strings.Split(s, ",") {
		if e == "" {
			continue
		}
		n, err := strconv.ParseInt(e, 10, 64)
		if err != nil {
			n = -1 // an element that no transaction appended
		}
		out = append(out, n)
	}
	return out
}

func (c *client) readList(ctx context.Context, t *history.Txn, id int, lock string) error {
	var s string
	err := c.conn.QueryRow(ctx, "SELECT v FROM "+listTable(id)+" WHERE id = $1"+lock, id).Scan(&s)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	t.Accesses = append(t.Accesses, history.Access{Kind: history.Read, Key: listKey(id), List: parseList(s)})
	return nil
}

// scanLists reads all lists of one table between two keys, missing ones included.
func (c *client) scanLists(ctx context.Context, t *history.Txn, from, to int) error {
	rows, err := c.conn.Query(ctx, "SELECT id, v FROM "+listTable(from)+" WHERE id BETWEEN $1 AND $2", from, to)
	if err != nil {
		return err
	}
	defer rows.Close()
	found := map[int]string{}
	for rows.Next() {
		var id int
		var s string
		if err := rows.Scan(&id, &s); err != nil {
			return err
		}
		found[id] = s
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for id := from; id <= to; id += 2 {
		t.Accesses = append(t.Accesses, history.Access{Kind: history.Read, Key: listKey(id), List: parseList(found[id])})
	}
	return nil
}

func (c *client) appendList(ctx context.Context, t *history.Txn, id int) error {
	v := c.a.lists.next.Add(1)
	c.a.lists.appends.Add(1)
	// The append is noted before it is sent, because a transaction of unknown outcome may have sent it.
	t.Accesses = append(t.Accesses, history.Access{Kind: history.Append, Key: listKey(id), Value: v})
	table := listTable(id)
	_, err := c.conn.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = "+table+".v || ',' || excluded.v",
		id, strconv.FormatInt(v, 10))
	return err
}

// list is one transaction on lists.
func (c *client) list(ctx context.Context) error {
	t := c.a.lists.h.Begin(c.id, c.when())
	base := int(c.a.lists.appends.Load() / listAppends)
	step := func() error {
		id := base + c.dice.IntN(listWindow)
		switch n := c.dice.IntN(10); {
		case n < 4:
			return c.readList(ctx, t, id, "")
		case n == 4:
			if c.a.leaderless("lists" + strconv.Itoa(id%2)) {
				return c.readList(ctx, t, id, "")
			}
			return c.readList(ctx, t, id, " FOR UPDATE")
		case n == 5:
			return c.scanLists(ctx, t, id, id+2*c.dice.IntN(3))
		}
		return c.appendList(ctx, t, id)
	}
	if c.dice.IntN(8) == 0 { // one statement, without a transaction around it
		err := step()
		how, note := c.outcome(err)
		c.a.lists.h.End(t, how, note)
		return err
	}
	how, note, err := c.txn(ctx, func() error {
		for range 1 + c.dice.IntN(5) {
			if err := step(); err != nil {
				return err
			}
			c.think()
		}
		if c.dice.IntN(12) == 0 {
			return errRolledBack
		}
		return nil
	})
	c.a.lists.h.End(t, how, note)
	return err
}

func (c *client) lastLists(ctx context.Context) error {
	t := c.a.lists.h.Begin(c.id, c.when())
	last := int(c.a.lists.appends.Load()/listAppends) + listWindow
	err := c.scanLists(ctx, t, 0, last)
	if err == nil {
		err = c.scanLists(ctx, t, 1, last+1)
	}
	// These are two statements, but count as one transaction: nothing is written meanwhile, as Finish requires.
	how, note := c.outcome(err)
	c.a.lists.h.End(t, how, note)
	return err
}

// Values: registers that transactions read and replace.

const valueKeys = 9

type values struct {
	h    history.Transactions
	next atomic.Int64
}

func valueKey(id int) string { return "v" + strconv.Itoa(id) }

func (c *client) readValue(ctx context.Context, t *history.Txn, id int) error {
	var v int64
	if err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_values WHERE id = $1", id).Scan(&v); err != nil {
		return err
	}
	t.Accesses = append(t.Accesses, history.Access{Kind: history.Read, Key: valueKey(id), Value: v})
	return nil
}

func (c *client) writeValue(ctx context.Context, t *history.Txn, id int) error {
	v := c.a.values.next.Add(1)
	t.Accesses = append(t.Accesses, history.Access{Kind: history.Write, Key: valueKey(id), Value: v})
	_, err := c.conn.Exec(ctx, "UPDATE anomaly_values SET v = $2 WHERE id = $1", id, v)
	return err
}

// value is one transaction on values: it reads some, and replaces some, mostly those that it has read.
func (c *client) value(ctx context.Context) error {
	t := c.a.values.h.Begin(c.id, c.when())
	how, note, err := c.txn(ctx, func() error {
		wrote := false
		for range 1 + c.dice.IntN(3) {
			id := c.dice.IntN(valueKeys)
			n := c.dice.IntN(6)
			if n < 5 {
				if err := c.readValue(ctx, t, id); err != nil {
					return err
				}
				c.think()
			}
			if n > 2 {
				wrote = true
				if err := c.writeValue(ctx, t, id); err != nil {
					return err
				}
				c.think()
			}
		}
		if wrote && c.dice.IntN(12) == 0 {
			return errRolledBack
		}
		return nil
	})
	c.a.values.h.End(t, how, note)
	return err
}

func (c *client) lastValues(ctx context.Context) error {
	t := c.a.values.h.Begin(c.id, c.when())
	var err error
	for id := range valueKeys {
		if err = c.readValue(ctx, t, id); err != nil {
			break
		}
	}
	how, note := c.outcome(err)
	c.a.values.h.End(t, how, note)
	return err
}

// Long fork: each key is written once; others read a pair of keys while that happens.

const forkReads = 6 // reads of a pair before the next pair begins

type fork struct {
	h    history.Transactions
	next atomic.Int64
}

func (c *client) forked(ctx context.Context) error {
	n := c.a.fork.next.Add(1)
	pair := int(n / (forkReads + 2))
	t := c.a.fork.h.Begin(c.id, c.when())
	key := func(i int) (int, string) { return 2*pair + i, "f" + strconv.Itoa(2*pair+i) }
	if i := n % (forkReads + 2); i == 2 || i == 3 {
		id, name := key(int(i - 2))
		t.Accesses = append(t.Accesses, history.Access{Kind: history.Write, Key: name, Value: 1})
		_, err := c.conn.Exec(ctx, "INSERT INTO anomaly_fork VALUES ($1, 1)", id)
		how, note := c.outcome(err)
		c.a.fork.h.End(t, how, note)
		return err
	}
	first := c.dice.IntN(2)
	how, note, err := c.txn(ctx, func() error {
		for _, i := range []int{first, 1 - first} {
			id, name := key(i)
			var v int64
			err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_fork WHERE id = $1", id).Scan(&v)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("fork: %w", err)
			}
			t.Accesses = append(t.Accesses, history.Access{Kind: history.Read, Key: name, Value: v})
			c.think()
		}
		return nil
	})
	c.a.fork.h.End(t, how, note)
	return err
}
