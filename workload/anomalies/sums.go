package anomalies

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/history"
)

const (
	counters     = 3
	raceTries    = 4  // clients that race for one name
	skewTries    = 4  // clients that want to leave a pair
	registerOps  = 60 // operations on one register before the next one begins
	registerWide = 3  // registers in use at a time
	registerTime = 20 * time.Second
)

// sums are the parts whose checks need no graph.
type sums struct {
	registers     history.Registers
	registerOps   atomic.Int64
	registerValue atomic.Int64
	made          sync.Map // registers that have a row
	mu            sync.Mutex
	snapshots     []history.Snapshot
	counter       history.Registers
	mono          history.Registers
	bank          history.Registers // outcomes of transfers, for the figures
	tries         [2]atomic.Int64   // of unique and race
	rows          atomic.Int64
	results       [2][]history.Race
	pairs         atomic.Int64
	skewed        []history.Outcome
	finalUnique   map[string]int
	finalRace     map[string][]int
	finalSkew     map[int]int
	finalTook     bool
}

func (s *sums) init() { s.finalTook = false }

// end notes how an operation on single keys ended.
func (c *client) end(h *history.Registers, o *history.Op, result int64, swapped bool, err error) error {
	how, note := c.outcome(err)
	switch how {
	case history.OK:
		h.OK(o, result, swapped)
	case history.Failed:
		h.Failed(o, note)
	default:
		h.Unknown(o, note)
	}
	return err
}

// register reads, writes or compares and sets one row, each in one statement.
func (c *client) register(ctx context.Context) error {
	s := &c.a.sums
	key := int(s.registerOps.Add(1)/registerOps) + c.dice.IntN(registerWide)
	if _, there := s.made.Load(key); !there {
		if _, err := c.conn.Exec(ctx, "INSERT INTO anomaly_register VALUES ($1, 0) ON CONFLICT (id) DO NOTHING", key); err != nil {
			return err
		}
		s.made.Store(key, true)
	}
	op := history.Op{Client: c.id, Key: key, When: c.when(), Value: s.registerValue.Add(1)}
	switch c.dice.IntN(3) {
	case 0:
		op.Kind = history.Read
		o := s.registers.Begin(op)
		var v int64
		err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_register WHERE id = $1", key).Scan(&v)
		return c.end(&s.registers, o, v, false, err)
	case 1:
		op.Kind = history.Write
		o := s.registers.Begin(op)
		_, err := c.conn.Exec(ctx, "UPDATE anomaly_register SET v = $2 WHERE id = $1", key, op.Value)
		return c.end(&s.registers, o, 0, false, err)
	}
	var seen int64
	if err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_register WHERE id = $1", key).Scan(&seen); err != nil {
		return err
	}
	op.Kind, op.Expected = history.CAS, seen
	o := s.registers.Begin(op)
	tag, err := c.conn.Exec(ctx, "UPDATE anomaly_register SET v = $2 WHERE id = $1 AND v = $3", key, op.Value, seen)
	return c.end(&s.registers, o, 0, tag.RowsAffected() == 1, err)
}

// transfer reads two balances and writes both, or reads all.
func (c *client) transfer(ctx context.Context) error {
	s := &c.a.sums
	if c.dice.IntN(3) == 0 {
		return c.audit(ctx, c.dice.IntN(2) == 0)
	}
	from, to := c.dice.IntN(accounts)+1, c.dice.IntN(accounts-1)+1
	if to >= from {
		to++
	}
	o := s.bank.Begin(history.Op{Client: c.id, Kind: history.Write})
	_, _, err := c.txn(ctx, func() error {
		var x, y int64
		if err := c.conn.QueryRow(ctx, "SELECT balance FROM anomaly_bank WHERE id = $1", from).Scan(&x); err != nil {
			return err
		}
		if err := c.conn.QueryRow(ctx, "SELECT balance FROM anomaly_bank WHERE id = $1", to).Scan(&y); err != nil {
			return err
		}
		c.think()
		amount := c.dice.Int64N(5) + 1
		if x < amount {
			return errRolledBack
		}
		if _, err := c.conn.Exec(ctx, "UPDATE anomaly_bank SET balance = $2 WHERE id = $1", from, x-amount); err != nil {
			return err
		}
		_, err := c.conn.Exec(ctx, "UPDATE anomaly_bank SET balance = $2 WHERE id = $1", to, y+amount)
		return err
	})
	return c.end(&s.bank, o, 0, false, err)
}

// audit reads all accounts, in one statement or two.
func (c *client) audit(ctx context.Context, two bool) error {
	s := &c.a.sums
	found := map[string]int64{}
	read := func(where string) error {
		rows, err := c.conn.Query(ctx, "SELECT id, balance FROM anomaly_bank WHERE "+where)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int
			var b int64
			if err := rows.Scan(&id, &b); err != nil {
				return err
			}
			found[strconv.Itoa(id)] = b
		}
		return rows.Err()
	}
	var err error
	if two {
		_, _, err = c.txn(ctx, func() error {
			if err := read("id <= 4"); err != nil {
				return err
			}
			c.think()
			return read("id > 4")
		})
	} else {
		err = read("true")
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.snapshots = append(s.snapshots, history.Snapshot{Op: history.Op{Client: c.id, Kind: history.Read, Outcome: history.OK, When: c.when()}, Balances: found})
	s.mu.Unlock()
	return nil
}

// count adds one to a counter by reading it and writing it.
func (c *client) count(ctx context.Context) error {
	s := &c.a.sums
	key := c.dice.IntN(counters)
	o := s.counter.Begin(history.Op{Client: c.id, Key: key, Kind: history.Add, Value: 1, When: c.when()})
	how, note, err := c.txn(ctx, func() error {
		var v int64
		if err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_counter WHERE id = $1", key).Scan(&v); err != nil {
			return err
		}
		c.think()
		_, err := c.conn.Exec(ctx, "UPDATE anomaly_counter SET v = $2 WHERE id = $1", key, v+1)
		return err
	})
	if how == history.Failed {
		s.counter.Failed(o, note)
		return err
	}
	return c.end(&s.counter, o, 0, false, err)
}

// monotonic adds one in the server, or reads.
func (c *client) monotonic(ctx context.Context) error {
	s := &c.a.sums
	if c.dice.IntN(2) == 0 {
		_, err := c.conn.Exec(ctx, "UPDATE anomaly_monotonic SET v = v + 1 WHERE id = 0")
		c.outcome(err)
		return err
	}
	o := s.mono.Begin(history.Op{Client: c.id, Kind: history.Read, When: c.when()})
	var v int64
	err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_monotonic WHERE id = 0").Scan(&v)
	return c.end(&s.mono, o, v, false, err)
}

// name is the name for which the next try races.
func (s *sums) name(which int) string {
	return "n" + strconv.FormatInt(s.tries[which].Add(1)/raceTries, 10)
}

func (s *sums) raced(which int, r history.Race) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[which] = append(s.results[which], r)
}

// unique inserts a name that others insert too; a constraint forbids the second one. Each try has an identity of its own.
func (c *client) unique(ctx context.Context) error {
	s := &c.a.sums
	name, me := s.name(0), int(s.rows.Add(1))
	_, err := c.conn.Exec(ctx, "INSERT INTO anomaly_unique VALUES ($1, $2, $3)", me, name, me)
	how, note := c.outcome(err)
	s.raced(0, history.Race{Key: name, Client: me, Outcome: how, Note: note})
	if how == history.Failed {
		return nil // the constraint refused the name, as it should
	}
	return err
}

// race inserts a name if no row has it; no constraint forbids a second one.
func (c *client) race(ctx context.Context) error {
	s := &c.a.sums
	name, me := s.name(1), int(s.rows.Add(1))
	how, note, err := c.txn(ctx, func() error {
		var n int
		if err := c.conn.QueryRow(ctx, "SELECT count(*) FROM anomaly_race WHERE name = $1", name).Scan(&n); err != nil {
			return err
		}
		c.think()
		if n > 0 {
			return errRolledBack
		}
		_, err := c.conn.Exec(ctx, "INSERT INTO anomaly_race VALUES ($1, $2, $3)", me, name, me)
		return err
	})
	s.raced(1, history.Race{Key: name, Client: me, Outcome: how, Note: note})
	return err
}

// skew: one of a pair leaves if both are on call.
func (c *client) skew(ctx context.Context) error {
	s := &c.a.sums
	n := s.pairs.Add(1)
	pair, me := n/(skewTries+1), n%2
	if n%(skewTries+1) == 0 { // the first makes the pair; others of it may come before that
		_, err := c.conn.Exec(ctx, "INSERT INTO anomaly_skew VALUES ($1, $3, 1), ($2, $3, 1)", 2*pair, 2*pair+1, pair)
		c.outcome(err)
		return err
	}
	how, _, err := c.txn(ctx, func() error {
		var there int
		err := c.conn.QueryRow(ctx, "SELECT coalesce(sum(oncall), 0)::int FROM anomaly_skew WHERE pair = $1", pair).Scan(&there)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		c.think()
		if there < 2 {
			return errRolledBack
		}
		_, err = c.conn.Exec(ctx, "UPDATE anomaly_skew SET oncall = 0 WHERE id = $1", 2*pair+me)
		return err
	})
	s.mu.Lock()
	s.skewed = append(s.skewed, how)
	s.mu.Unlock()
	return err
}

// lastSums reads the rows that the verdicts need.
func (c *client) lastSums(ctx context.Context) error {
	s := &c.a.sums
	if err := c.audit(ctx, false); err != nil {
		return err
	}
	for key := range counters {
		o := s.counter.Begin(history.Op{Client: c.id, Key: key, Kind: history.Read, When: c.when()})
		var v int64
		err := c.conn.QueryRow(ctx, "SELECT v FROM anomaly_counter WHERE id = $1", key).Scan(&v)
		if err := c.end(&s.counter, o, v, false, err); err != nil {
			return err
		}
	}
	unique, race, skew := map[string]int{}, map[string][]int{}, map[int]int{}
	type row struct {
		Name   string
		Client int
	}
	for i, table := range []string{"anomaly_unique", "anomaly_race"} {
		rows, err := c.conn.Query(ctx, "SELECT name, client FROM "+table)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil {
			return err
		}
		for _, r := range list {
			if i == 0 {
				unique[r.Name] = r.Client
			} else {
				race[r.Name] = append(race[r.Name], r.Client)
			}
		}
	}
	rows, err := c.conn.Query(ctx, "SELECT pair, sum(oncall)::int FROM anomaly_skew GROUP BY pair")
	if err != nil {
		return err
	}
	type pair struct{ Pair, On int }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair])
	if err != nil {
		return err
	}
	for _, p := range list {
		skew[p.Pair] = p.On
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finalUnique, s.finalRace, s.finalSkew, s.finalTook = unique, race, skew, true
	return nil
}

// verdict judges one part.
func (s *sums) verdict(name string) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := Verdict{Part: name}
	ops := func(list []history.Op) {
		for i := range list {
			v.add(list[i].Outcome)
		}
	}
	bad := func(n int, level history.Level, err error) {
		if err != nil {
			v.Bad, v.Weakest, v.Text, v.Found = true, level, err.Error(), fmt.Sprintf("%s %d", name, n)
		}
	}
	switch name {
	case "register":
		ops(s.registers.Ops())
		bad(1, history.ReadUncommitted, s.registers.Check(registerTime))
	case "bank":
		ops(s.bank.Ops())
		wrong := 0
		for i := range s.snapshots {
			if history.Totals(s.snapshots[i:i+1], accounts, accounts*balance, true) != nil {
				wrong++
			}
		}
		bad(wrong, history.RepeatableRead, history.Totals(s.snapshots, accounts, accounts*balance, true))
	case "counter":
		all := s.counter.Ops()
		ops(all)
		for key := range counters {
			var one []history.Op
			for _, o := range all {
				if o.Key == key {
					one = append(one, o)
				}
			}
			bad(1, history.RepeatableRead, history.Counter(one, 0))
		}
	case "monotonic":
		ops(s.mono.Ops())
		bad(1, history.ReadUncommitted, history.Monotonic(s.mono.Ops()))
	case "unique":
		for _, r := range s.results[0] {
			v.add(r.Outcome)
		}
		if s.finalTook {
			bad(1, history.ReadUncommitted, history.Winners(s.results[0], s.finalUnique))
		}
	case "race":
		for _, r := range s.results[1] {
			v.add(r.Outcome)
		}
		one, twice := map[string]int{}, 0
		for name, l := range s.finalRace {
			one[name] = l[0]
			if len(l) > 1 {
				twice++
				bad(twice, history.Serializable, fmt.Errorf("%s was won by %v", name, l))
			}
		}
		if s.finalTook && twice == 0 {
			bad(1, history.ReadUncommitted, history.Winners(s.results[1], one))
		}
	case "skew":
		for _, o := range s.skewed {
			v.add(o)
		}
		nobody := 0
		for p, on := range s.finalSkew {
			if on == 0 {
				nobody++
				bad(nobody, history.Serializable, fmt.Errorf("nobody of pair %d is on call", p))
			}
		}
	}
	return v
}
