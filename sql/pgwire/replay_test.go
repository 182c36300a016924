package pgwire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestReplayRandom has sessions run random transactions over few rows, statement by statement, so that each result has
// reached its client when a later statement conflicts. Every write appends its transaction's name to the row, so the
// rows tell in the end who wrote when. It checks that
//
//   - what the clients of committed transactions saw is what they would have seen one after the other (no cycle of
//     dependencies), totals included;
//   - a client hears 40001 only if a statement that it was told of reads what others change: the error names it;
//   - what a savepoint took back is not there.
func TestReplayRandom(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replayRandom(t, seed) })
		})
	}
}

const (
	replayRows     = 5
	replayClients  = 6
	replayRounds   = 12
	replayTotal    = 100 * replayRows
	replayAttempts = 60
)

// replayRead is a list that a transaction saw in a row.
type replayRead struct {
	row  int
	seen string
}

type replayTxn struct {
	name   string
	reads  []replayRead
	writes map[int]bool
	fickle map[int]bool // numbers of statements whose results may change
}

var differing = regexp.MustCompile(`statement (\d+), whose result has been sent, has another result now`)

func replayRandom(t *testing.T, seed uint64) {
	c := oneNode(t)
	ctx := context.Background()
	first, err := c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(ctx)
	for _, sql := range []string{"create table r (id int primary key, v int, h text)",
		fmt.Sprintf("insert into r select g, 100, '' from generate_series(1, %d) g", replayRows), "create sequence numbers"} {
		if _, err := first.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var (
		mu        sync.Mutex
		committed []*replayTxn
		lost      int
		numbers   = map[string]bool{}
		wg        sync.WaitGroup
	)
	for k := range replayClients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			dice := rand.New(rand.NewPCG(seed, uint64(k)))
			conn, err := c.Connect(ctx, 0, "defaultdb")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(ctx)
			for round := range replayRounds {
				steady := dice.IntN(2) == 0
				for attempt := 0; ; attempt++ {
					x := &replayTxn{name: fmt.Sprintf("%d.%d.%d", k, round, attempt), writes: map[int]bool{}, fickle: map[int]bool{}}
					got, err := x.run(ctx, conn, dice, steady)
					mu.Lock()
					if err == nil {
						committed = append(committed, x)
						for _, n := range got {
							if numbers[n] {
								t.Errorf("%s was given the number %s, which another one has", x.name, n)
							}
							numbers[n] = true
						}
						mu.Unlock()
						break
					}
					lost++
					mu.Unlock()
					var e *pgconn.PgError
					if !errors.As(err, &e) || e.Code != "40001" {
						t.Errorf("%s: %v", x.name, err)
						return
					}
					m := differing.FindStringSubmatch(e.Detail)
					if m == nil {
						t.Errorf("%s: the detail does not say which statement differs: %s", x.name, e.Detail)
					} else if n, _ := strconv.Atoi(m[1]); !x.fickle[n] {
						t.Errorf("%s: statement %d can't have differed: %s", x.name, n, e.Detail)
					}
					if attempt == replayAttempts {
						t.Errorf("%s: lost too often", x.name)
						return
					}
				}
			}
		}()
	}
	wg.Wait()
	var rows []string
	total := 0
	all, err := first.Query(ctx, "select v, h from r order by id")
	if err != nil {
		t.Fatal(err)
	}
	for all.Next() {
		var v int
		var h string
		if err := all.Scan(&v, &h); err != nil {
			t.Fatal(err)
		}
		rows, total = append(rows, h), total+v
	}
	if total != replayTotal {
		t.Errorf("the rows have %d in all, not %d", total, replayTotal)
	}
	checkSerial(t, rows, committed)
	counts := map[string]int64{}
	kinds, err := first.Query(ctx, "show transaction retries")
	if err != nil {
		t.Fatal(err)
	}
	for kinds.Next() {
		var kind, about string
		var n int64
		if err := kinds.Scan(&kind, &n, &about); err != nil {
			t.Fatal(err)
		}
		counts[kind] = n
	}
	t.Logf("%d committed, %d lost; %v", len(committed), lost, counts)
	if counts["replay succeeded"] == 0 {
		t.Error("no replay succeeded")
	}
	if int64(lost) != counts["client"] {
		t.Errorf("%d clients were told of a conflict, %d counted", lost, counts["client"])
	}
}

// run is one transaction. One that is steady reads nothing that others change.
func (x *replayTxn) run(ctx context.Context, conn *pgx.Conn, dice *rand.Rand, steady bool) (numbers []string, err error) {
	statement := 0
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec}
	do := func(sql string, args ...any) (string, error) {
		statement++
		rows, err := conn.Query(ctx, sql, append([]any{modes[dice.IntN(len(modes))]}, args...)...)
		if err != nil {
			return "", err
		}
		defer rows.Close()
		out := ""
		for rows.Next() {
			v, err := rows.Values()
			if err != nil {
				return "", err
			}
			out = fmt.Sprint(v[0])
		}
		return out, rows.Err()
	}
	if _, err := conn.Exec(ctx, "begin"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Exec(ctx, "rollback")
		}
	}()
	write := func(id, d int, name string) error {
		_, err := do("update r set v = v + $1, h = h || $2 || ' ' where id = $3", d, name, id)
		return err
	}
	for range 1 + dice.IntN(5) {
		time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
		a, b := 1+dice.IntN(replayRows), 1+dice.IntN(replayRows)
		switch k := dice.IntN(8); {
		case k == 0:
			sum, err := do("select sum(v) from r")
			if err != nil {
				return nil, err
			}
			if sum != strconv.Itoa(replayTotal) {
				return nil, fmt.Errorf("the sum was %s", sum)
			}
		case k == 1:
			if got, err := do("select id from r where id = $1", a); err != nil {
				return nil, err
			} else if got != strconv.Itoa(a) {
				return nil, fmt.Errorf("row %d was %q", a, got)
			}
		case k == 2:
			n, err := do("select nextval('numbers')")
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, n)
		case k == 3:
			if _, err := do("savepoint s"); err != nil {
				return nil, err
			}
			if err := write(a, 7, "undone"); err != nil {
				return nil, err
			}
			_, err := do("select 1 / (id - id) from r where id = $1", b)
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != "22012" {
				return nil, err
			}
			if _, err := do("rollback to s"); err != nil {
				return nil, err
			}
		case k == 4 && !steady && len(x.writes) == 0:
			seen, err := do("select h from r where id = $1", a)
			if err != nil {
				return nil, err
			}
			x.fickle[statement] = true
			x.reads = append(x.reads, replayRead{a, seen})
		case !x.writes[a] && !x.writes[b] && a != b:
			if err := write(a, -1, x.name); err != nil {
				return nil, err
			}
			if err := write(b, 1, x.name); err != nil {
				return nil, err
			}
			x.writes[a], x.writes[b] = true, true
		}
	}
	_, err = conn.Exec(ctx, "commit")
	return numbers, err
}

// checkSerial looks for a cycle of dependencies.
func checkSerial(t *testing.T, rows []string, committed []*replayTxn) {
	index := map[string]int{}
	for i, x := range committed {
		index[x.name] = i
	}
	after := make([][]int, len(committed))
	lists := make([][]string, len(rows))
	edge := func(a, b int) {
		if a != b {
			after[a] = append(after[a], b)
		}
	}
	for r, h := range rows {
		lists[r] = strings.Fields(h)
		wrote := map[string]bool{}
		for i, name := range lists[r] {
			x, ok := index[name]
			if !ok || !committed[x].writes[r+1] || wrote[name] {
				t.Errorf("row %d has a write of %s", r+1, name)
				return
			}
			wrote[name] = true
			if i > 0 {
				edge(index[lists[r][i-1]], x)
			}
		}
		for _, x := range committed {
			if x.writes[r+1] && !wrote[x.name] {
				t.Errorf("row %d lacks the write of %s", r+1, x.name)
			}
		}
	}
	for i, x := range committed {
		for _, read := range x.reads {
			list, seen := lists[read.row-1], strings.Fields(read.seen)
			if len(seen) > len(list) || strings.Join(list[:len(seen)], " ") != strings.Join(seen, " ") {
				t.Errorf("%s saw %v in row %d, which has %v", x.name, seen, read.row, list)
				return
			}
			if n := len(seen); n > 0 {
				edge(index[seen[n-1]], i)
			}
			if n := len(seen); n < len(list) {
				edge(i, index[list[n]])
			}
		}
	}
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(committed))
	var visit func(i int) bool
	visit = func(i int) bool {
		state[i] = open
		for _, j := range after[i] {
			if state[j] == open || state[j] == unseen && !visit(j) {
				t.Errorf("a cycle of dependencies goes through %s and %s", committed[i].name, committed[j].name)
				return false
			}
		}
		state[i] = done
		return true
	}
	for i := range committed {
		if state[i] == unseen && !visit(i) {
			return
		}
	}
}
