package anomalies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/workload"
)

// Anomalies is the workload.
type Anomalies struct {
	// Level to ask the server for, and to judge by: SERIALIZABLE, REPEATABLE READ or READ COMMITTED.
	Level string
	// Strict also judges lists and values by the order of time, at SERIALIZABLE.
	Strict bool
	// Only names the parts to run, with commas between; empty: all.
	Only string
	// Think is the longest pause between two statements of a transaction; zero: none.
	Think time.Duration
	// FastPaxos names the tables that have the commit protocol fast_paxos, with commas between ("lists1,values"); "all": all of them have.
	FastPaxos string
	// Out receives the verdicts of each check; nil: nowhere.
	Out io.Writer

	parts   []part
	begun   time.Time
	workers atomic.Int64
	step    sync.RWMutex // read by steps, so that a check sees only whole ones

	lists  lists
	values values
	fork   fork
	sums   sums
	mu     sync.Mutex // guards strange; nothing is taken after it
	// strange are errors that no part expects, by SQLSTATE.
	strange map[string]error
}

// part is one kind of transaction.
type part struct {
	name  string
	share int
	run   func(*client, context.Context) error
}

// New makes the default: everything, at SERIALIZABLE.
func New() *Anomalies { return &Anomalies{Level: "SERIALIZABLE"} }

// Name implements workload.Workload.
func (a *Anomalies) Name() string { return "anomalies" }

// About implements workload.Workload.
func (a *Anomalies) About() string {
	return "transactions that would show every anomaly that a level of isolation forbids; their history is judged"
}

// Judge is the level of isolation that the run is judged by.
func (a *Anomalies) Judge() (history.Level, error) {
	switch strings.ToUpper(a.Level) {
	case "SERIALIZABLE":
		if a.Strict {
			return history.Strict, nil
		}
		return history.Serializable, nil
	case "REPEATABLE READ":
		return history.RepeatableRead, nil
	case "READ COMMITTED":
		return history.ReadCommitted, nil
	}
	return 0, fmt.Errorf("%q is not SERIALIZABLE, REPEATABLE READ or READ COMMITTED", a.Level)
}

func (a *Anomalies) ordering() history.Ordering {
	if a.Strict {
		return history.ByTime
	}
	return history.ByValues
}

const (
	accounts = 8
	balance  = 100
)

// leaderless reports whether a table has the commit protocol fast_paxos. Its rows can't be locked, and it takes no other index than its first ones.
func (a *Anomalies) leaderless(table string) bool {
	return a.FastPaxos == "all" || slices.Contains(strings.Split(a.FastPaxos, ","), table)
}

// index makes an index, or does nothing.
func (a *Anomalies) index(table, column string) string {
	if a.leaderless(table) {
		return "SELECT 1"
	}
	return fmt.Sprintf("CREATE INDEX anomaly_%[1]s_%[2]s ON anomaly_%[1]s (%[2]s)", table, column)
}

// Init implements workload.Workload. Earlier records are dropped.
func (a *Anomalies) Init(ctx context.Context, conn *pgx.Conn) error {
	if _, err := a.Judge(); err != nil {
		return err
	}
	if err := a.choose(); err != nil {
		return err
	}
	for _, q := range []string{
		"DROP TABLE IF EXISTS anomaly_lists0", "DROP TABLE IF EXISTS anomaly_lists1", "DROP TABLE IF EXISTS anomaly_values",
		"DROP TABLE IF EXISTS anomaly_fork", "DROP TABLE IF EXISTS anomaly_register", "DROP TABLE IF EXISTS anomaly_bank",
		"DROP TABLE IF EXISTS anomaly_counter", "DROP TABLE IF EXISTS anomaly_monotonic", "DROP TABLE IF EXISTS anomaly_unique",
		"DROP TABLE IF EXISTS anomaly_race", "DROP TABLE IF EXISTS anomaly_skew",
		"CREATE TABLE anomaly_lists0 (id int PRIMARY KEY, v text NOT NULL)",
		"CREATE TABLE anomaly_lists1 (id int PRIMARY KEY, v text NOT NULL)",
		"CREATE TABLE anomaly_values (id int PRIMARY KEY, v bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO anomaly_values SELECT g, 0 FROM generate_series(0, %d) AS g", valueKeys-1),
		"CREATE TABLE anomaly_fork (id int PRIMARY KEY, v bigint NOT NULL)",
		"CREATE TABLE anomaly_register (id int PRIMARY KEY, v bigint NOT NULL)",
		"CREATE TABLE anomaly_bank (id int PRIMARY KEY, balance bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO anomaly_bank SELECT g, %d FROM generate_series(1, %d) AS g", balance, accounts),
		"CREATE TABLE anomaly_counter (id int PRIMARY KEY, v bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO anomaly_counter SELECT g, 0 FROM generate_series(0, %d) AS g", counters-1),
		"CREATE TABLE anomaly_monotonic (id int PRIMARY KEY, v bigint NOT NULL)",
		"INSERT INTO anomaly_monotonic VALUES (0, 0)",
		"CREATE TABLE anomaly_unique (id int PRIMARY KEY, name text NOT NULL UNIQUE, client int NOT NULL)",
		"CREATE TABLE anomaly_race (id int PRIMARY KEY, name text NOT NULL, client int NOT NULL)",
		a.index("race", "name"),
		"CREATE TABLE anomaly_skew (id int PRIMARY KEY, pair int NOT NULL, oncall int NOT NULL)",
		a.index("skew", "pair"),
	} {
		if name, ok := strings.CutPrefix(q, "CREATE TABLE anomaly_"); ok && a.leaderless(strings.Fields(name)[0]) {
			q += " WITH (commit_protocol = 'fast_paxos')"
		}
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	// Transactions are to touch several ranges, if the server has ranges.
	for _, q := range []string{"lists0 SPLIT AT VALUES (3), (30)", "lists1 SPLIT AT VALUES (0), (40)", "values SPLIT AT VALUES (0), (3), (6)",
		"bank SPLIT AT VALUES (0), (5)", "fork SPLIT AT VALUES (50), (51)", "skew SPLIT AT VALUES (11)", "unique SPLIT AT VALUES (20)"} {
		_, err := conn.Exec(ctx, "ALTER TABLE anomaly_"+q)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "42601" {
			break // PostgreSQL
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// choose picks the parts to run.
func (a *Anomalies) choose() error {
	all := []part{
		{"lists", 30, (*client).list}, {"values", 20, (*client).value}, {"fork", 8, (*client).forked},
		{"register", 10, (*client).register}, {"bank", 10, (*client).transfer}, {"counter", 6, (*client).count},
		{"monotonic", 6, (*client).monotonic}, {"unique", 6, (*client).unique}, {"race", 6, (*client).race}, {"skew", 8, (*client).skew},
	}
	a.parts = nil
	for _, p := range all {
		if a.Only == "" || strings.Contains(","+a.Only+",", ","+p.name+",") {
			a.parts = append(a.parts, p)
		}
	}
	if len(a.parts) == 0 {
		return fmt.Errorf("%q names none of the parts", a.Only)
	}
	a.begun = time.Now()
	a.sums.init()
	a.strange = map[string]error{}
	return nil
}

// client is one worker.
type client struct {
	a    *Anomalies
	id   int
	dice *rand.Rand
	conn *pgx.Conn
	set  *pgx.Conn // the connection whose level is set
}

// Worker implements workload.Workload.
func (a *Anomalies) Worker(_ context.Context, dice *rand.Rand) (workload.Step, error) {
	if a.parts == nil {
		if err := a.choose(); err != nil { // the tables were made by another process
			return nil, err
		}
	}
	c := &client{a: a, id: int(a.workers.Add(1)), dice: dice}
	sum := 0
	for _, p := range a.parts {
		sum += p.share
	}
	return func(ctx context.Context, conn *pgx.Conn) (string, error) {
		a.step.RLock()
		defer a.step.RUnlock()
		c.conn = conn
		if c.set != conn {
			if _, err := conn.Exec(ctx, "SET default_transaction_isolation = '"+strings.ToLower(a.Level)+"'"); err != nil {
				return "set", err
			}
			// PostgreSQL looks for deadlocks only after a second by default; other servers need not know the setting.
			if _, err := conn.Exec(ctx, "SET deadlock_timeout = '20ms'"); err != nil && conn.IsClosed() {
				return "set", err
			}
			c.set = conn
		}
		n := dice.IntN(sum)
		for _, p := range a.parts {
			if n -= p.share; n < 0 {
				return p.name, p.run(c, ctx)
			}
		}
		panic("unreachable")
	}, nil
}

func (c *client) when() time.Duration { return time.Since(c.a.begun) }

// outcome is the outcome of an operation; it notes errors that no part expects.
func (c *client) outcome(err error) (history.Outcome, string) {
	if err == nil {
		return history.OK, ""
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return history.Unknown, err.Error()
	}
	note := pg.Code + " " + pg.Message
	switch pg.Code {
	case "40001", "40P01", "23505", "55P03", "57P03":
		return history.Failed, note
	case "40003", "57P01", "57014":
		return history.Unknown, note
	}
	if !strings.HasPrefix(pg.Code, "08") && !strings.HasPrefix(pg.Code, "53") {
		c.a.mu.Lock()
		c.a.strange[pg.Code] = err
		c.a.mu.Unlock()
	}
	return history.Unknown, note
}

// think waits a little, so that transactions overlap.
func (c *client) think() {
	if d := c.a.Think; d > 0 && c.dice.IntN(2) == 0 {
		time.Sleep(time.Duration(c.dice.Int64N(int64(d))))
	}
}

// errRolledBack ends a transaction with ROLLBACK on purpose.
var errRolledBack = errors.New("anomalies: rolled back")

// txn runs f between BEGIN and COMMIT, or ROLLBACK if f returns errRolledBack, and returns the outcome.
func (c *client) txn(ctx context.Context, f func() error) (how history.Outcome, note string, err error) {
	if _, err := c.conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+c.a.Level); err != nil {
		how, note := c.outcome(err)
		return how, note, err
	}
	if err = f(); err == nil {
		c.think()
		var tag pgconn.CommandTag
		if tag, err = c.conn.Exec(ctx, "COMMIT"); err == nil && tag.String() != "COMMIT" {
			err = fmt.Errorf("COMMIT answered %s", tag)
		}
	}
	if err == nil {
		return history.OK, "", nil
	}
	if !c.conn.IsClosed() && c.conn.PgConn().TxStatus() != 'I' {
		if _, e := c.conn.Exec(context.WithoutCancel(ctx), "ROLLBACK"); e != nil && errors.Is(err, errRolledBack) {
			return history.Failed, "rolled back", e // the transaction never asked for its commit
		}
	}
	if errors.Is(err, errRolledBack) {
		return history.Failed, "rolled back", nil
	}
	how, note = c.outcome(err)
	return how, note, err
}

// Verdict is the result of one part.
type Verdict struct {
	Part                string
	OK, Failed, Unknown int
	// Found counts anomalies by class; Weakest is the weakest level that forbids any of them, and Text one of those.
	Found   string
	Weakest history.Level
	Bad     bool
	Text    string
}

func (v Verdict) String() string {
	s := fmt.Sprintf("%-10s %6d ok, %5d failed, %4d unknown: ", v.Part, v.OK, v.Failed, v.Unknown)
	if !v.Bad {
		return s + "good"
	}
	return s + v.Found + " (not " + v.Weakest.String() + ")"
}

// Allowed reports whether a level allows the anomalies found.
func (v Verdict) Allowed(l history.Level) bool { return !v.Bad || v.Weakest > l }

// Check implements workload.Workload: it reads the present rows, and judges.
func (a *Anomalies) Check(ctx context.Context, conn *pgx.Conn) error {
	level, err := a.Judge()
	if err != nil {
		return err
	}
	a.step.Lock()
	defer a.step.Unlock()
	if a.parts == nil {
		return errors.New("nothing was recorded: anomalies are checked by the run that makes them")
	}
	if err := a.Finish(ctx, conn); err != nil {
		return err
	}
	return a.judge(level)
}

func (a *Anomalies) judge(level history.Level) error {
	var bad []string
	for _, v := range a.Verdicts() {
		if a.Out != nil {
			fmt.Fprintln(a.Out, v)
		}
		if !v.Allowed(level) {
			bad = append(bad, v.Part+": "+v.Text)
		}
	}
	a.mu.Lock()
	for code, err := range a.strange {
		bad = append(bad, fmt.Sprintf("an unexpected error, %s: %v", code, err))
	}
	a.mu.Unlock()
	if len(bad) > 0 {
		return &workload.CheckError{Err: errors.New(strings.Join(bad, "\n"))}
	}
	return nil
}

// Judged is Check without the last reads, which Finish must have done. It may take some seconds of real time.
func (a *Anomalies) Judged() error {
	level, err := a.Judge()
	if err != nil {
		return err
	}
	return a.judge(level)
}

// Finish reads the rows at the end; no step may be running. It may be called again.
func (a *Anomalies) Finish(ctx context.Context, conn *pgx.Conn) error {
	c := &client{a: a, id: 0, conn: conn, dice: rand.New(rand.NewPCG(1, 1))}
	if _, err := conn.Exec(ctx, "SET default_transaction_isolation = 'serializable'"); err != nil {
		return err
	}
	if err := c.lastLists(ctx); err != nil {
		return err
	}
	if err := c.lastValues(ctx); err != nil {
		return err
	}
	return c.lastSums(ctx)
}

// Verdicts judges the recorded history.
func (a *Anomalies) Verdicts() []Verdict {
	var out []Verdict
	for _, p := range a.parts {
		switch p.name {
		case "lists":
			out = append(out, cycles(p.name, a.lists.h.All(), history.Appends(a.lists.h.All(), a.ordering())))
		case "values":
			out = append(out, cycles(p.name, a.values.h.All(), history.Values(a.values.h.All(),
				history.ValuesOptions{Ordering: a.ordering(), Linearizable: true})))
		case "fork":
			out = append(out, cycles(p.name, a.fork.h.All(), history.Values(a.fork.h.All(), history.ValuesOptions{Ordering: a.ordering()})))
		default:
			out = append(out, a.sums.verdict(p.name))
		}
	}
	return out
}

func cycles(name string, txns []*history.Txn, r *history.Report) Verdict {
	v := Verdict{Part: name}
	for _, t := range txns {
		v.add(t.Outcome)
	}
	if len(r.Anomalies) == 0 {
		return v
	}
	v.Bad, v.Found, v.Weakest = true, r.Counts(), history.Strict
	for _, x := range r.Anomalies {
		if v.Text == "" || x.Class.Level() < v.Weakest {
			v.Weakest, v.Text = x.Class.Level(), x.String()
		}
	}
	return v
}

func (v *Verdict) add(o history.Outcome) {
	switch o {
	case history.OK:
		v.OK++
	case history.Failed:
		v.Failed++
	default:
		v.Unknown++
	}
}
