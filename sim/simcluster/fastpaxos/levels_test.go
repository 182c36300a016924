package fastpaxos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster/simtest"
)

// TestFastPaxosLevelRounds: the rounds of each level of isolation, from a gateway in each of five regions. The default level reads in none and commits in one; a snapshot reads in one round to the fourth-nearest replica; a
// serializable transaction commits in one if it has read nothing but the rows that it replaces, and in two else.
func TestFastPaxosLevelRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, regions := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		time.Sleep(time.Second)
		for i, from := range regions.Names {
			far := fourth(regions, from)
			conn := simtest.ConnectTo(t, c, i, "d")
			simtest.Exec(t, conn, "INSERT INTO stock VALUES ($1, 5, $2)", 100+i, "x")
			simtest.Ask[int](t, conn, "SELECT n FROM stock WHERE id = 7") // the gateway knows the ranges
			time.Sleep(time.Second)
			within := func(what string, most time.Duration, do func()) {
				begun := time.Now()
				do()
				if took := time.Since(begun); took > most+3*time.Millisecond+most/20 {
					t.Errorf("region %d: %s took %v, want %v", i, what, took, most)
				}
			}
			within("a read at the default level", 0, func() { simtest.Ask[int](t, conn, "SELECT n FROM stock WHERE id = 7") })
			within("a write at the default level", far, func() { simtest.Exec(t, conn, "UPDATE stock SET n = 6 WHERE id = $1", 100+i) })
			simtest.Exec(t, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
			within("a read of a snapshot", far, func() { simtest.Ask[int](t, conn, fmt.Sprint("SELECT n FROM stock WHERE id = ", 100+i)) })
			within("a scan of a snapshot", far, func() { simtest.Ask[int](t, conn, "SELECT count(*) FROM stock") })
			simtest.Exec(t, conn, "UPDATE stock SET n = 7 WHERE id = $1", 100+i)
			within("the commit of a snapshot's writes", far, func() { simtest.Exec(t, conn, "COMMIT") })
			time.Sleep(time.Second)
			simtest.Exec(t, conn, "BEGIN ISOLATION LEVEL SERIALIZABLE")
			simtest.Exec(t, conn, "UPDATE stock SET n = 8 WHERE id = $1", 100+i)
			within("a serializable commit of what was read", far, func() { simtest.Exec(t, conn, "COMMIT") })
			time.Sleep(time.Second)
			simtest.Exec(t, conn, "BEGIN ISOLATION LEVEL SERIALIZABLE")
			simtest.Ask[int](t, conn, "SELECT n FROM stock WHERE id = 7")
			simtest.Exec(t, conn, "UPDATE stock SET n = 9 WHERE id = $1", 100+i)
			within("a serializable commit with further reads", 2*far, func() { simtest.Exec(t, conn, "COMMIT") })
			time.Sleep(time.Second)
		}
	})
}

// TestFastPaxosUpToDate: what was acknowledged to any client is seen by each read at REPEATABLE READ or above that begins afterwards, in each region, in one round, with clocks that differ. The default level may
// read what was there before.
func TestFastPaxosUpToDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, regions := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		target := c.Target(1)
		for i, name := range c.Names() {
			target.Skew(name, time.Duration(i-2)*90*time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		old, n := 0, 100
		for w := range regions.Names {
			for r, from := range regions.Names {
				writer, reader := simtest.ConnectTo(t, c, w, "d"), simtest.ConnectTo(t, c, r, "d")
				level := []string{"repeatable read", "serializable"}[n%2]
				simtest.Ask[int](t, reader, "SELECT n FROM stock WHERE id = 7")
				time.Sleep(2 * time.Second)
				n++
				cut := (w+r)%2 == 1 // the reader's replica, and its clock, have never heard of it
				if cut {
					target.Isolate(c.Names()[r])
				}
				simtest.Exec(t, writer, "UPDATE stock SET n = $1 WHERE id = 7", n)
				if cut {
					target.Rejoin(c.Names()[r])
				}
				if simtest.Ask[int](t, reader, "SELECT n FROM stock WHERE id = 7") != n {
					old++
				}
				simtest.Exec(t, reader, "SET default_transaction_isolation = '"+level+"'")
				begun := time.Now()
				for _, q := range []string{"SELECT n FROM stock WHERE id = 7", "SELECT max(n) FROM stock"} {
					if got := simtest.Ask[int](t, reader, q); got != n {
						t.Errorf("from %d, at %s: %s reads %d, and %d was acknowledged in %d", r, level, q, got, n, w)
					}
				}
				if took := time.Since(begun); !cut && took > 4*fourth(regions, from)+20*time.Millisecond {
					t.Errorf("from %d, at %s: two reads took %v", r, level, took)
				}
			}
		}
		if old == 0 {
			t.Error("no read at the default level was old, so that the others show nothing")
		}
	})
}

// TestFastPaxosPredictsLevels: EXPLAIN counts the rounds to quorums of the levels above read committed, and of reads of the past; so many take place, in that time.
func TestFastPaxosPredictsLevels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, regions := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		simtest.Exec(t, simtest.ConnectTo(t, c, 0, "d"), "CREATE TABLE other (id int PRIMARY KEY, k int)")
		simtest.Exec(t, simtest.ConnectTo(t, c, 0, "d"), "CREATE TABLE hits (id int PRIMARY KEY, n int) WITH (commit_protocol = 'fast_paxos')")
		time.Sleep(2 * time.Second)
		for i, from := range regions.Names[:2] {
			conn := simtest.ConnectTo(t, c, i, "d")
			far := fourth(regions, from)
			simtest.Exec(t, conn, "SELECT * FROM stock, other, hits") // looks up the ranges
			for row := range 6 {                                      // one for each update: an earlier update of a row may meet the next one while it becomes a version
				simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO stock VALUES (%d, 5, 'x')", 200+10*i+row))
			}
			time.Sleep(2 * time.Second)
			n, row := fmt.Sprint(100+i), func(k int) string { return fmt.Sprint(200 + 10*i + k) }
			for _, q := range []struct {
				level, text    string
				rounds, commit int
				read           string
			}{
				{"repeatable read", "SELECT * FROM stock WHERE id = 7", 1, 0, "a quorum, at one timestamp"},
				{"repeatable read", "SELECT count(*) FROM stock", 1, 0, "a quorum, at one timestamp"},
				{"repeatable read", "INSERT INTO stock VALUES (" + n + ", 5, 'x')", 2, 1, ""},
				{"repeatable read", "UPDATE stock SET name = 'z' WHERE id = " + row(0), 2, 1, "a quorum, at one timestamp"},
				{"repeatable read", "UPDATE stock SET n = n - 1 WHERE id = " + row(1), 2, 1, "a quorum, at one timestamp"},
				{"repeatable read", "DELETE FROM stock WHERE id = " + n, 2, 1, "a quorum, at one timestamp"},
				{"serializable", "SELECT * FROM stock WHERE id = 7", 1, 0, "a quorum, at one timestamp"},
				{"serializable", "INSERT INTO stock VALUES (" + n + ", 5, 'x')", 2, 1, ""},
				{"serializable", "UPDATE stock SET name = 'z' WHERE id = " + row(2), 2, 1, "a quorum, at one timestamp"},
				{"serializable", "UPDATE stock SET n = n - 1 WHERE id = " + row(3), 3, 2, "a quorum, at one timestamp"},
				{"serializable", "DELETE FROM stock WHERE id BETWEEN 100 AND 199", 3, 2, "a quorum, at one timestamp"},
				{"serializable", "INSERT INTO stock SELECT 10000 * " + n + " + count(*), 5, 'x' FROM stock AS a WHERE a.n + (SELECT count(*) FROM hits) > 0", 5, 2, "a quorum, at one timestamp"},
				{"read committed", "SELECT * FROM stock WHERE id = 7", 0, 0, "the nearest replica"},
				{"read committed", "SELECT * FROM stock AS OF SYSTEM TIME '-1s' WHERE id = 7", 1, 0, "a quorum, at one timestamp"},
				{"read committed", "UPDATE stock SET n = n - 1 WHERE id = " + row(4), 1, 1, "the nearest replica"},
			} {
				simtest.Exec(t, conn, "SET default_transaction_isolation = '"+q.level+"'")
				lines := simtest.Plain(t, conn, "EXPLAIN "+q.text)
				text := strings.Join(lines, "\n")
				want := time.Duration(q.rounds) * far
				if got := simtest.Footer(t, lines, "predicted latency"); got != fmt.Sprintf("%d ms", want.Round(time.Millisecond).Milliseconds()) || simtest.Footer(t, lines, "wide-area rounds") != fmt.Sprint(q.rounds) {
					t.Errorf("region %d, %s: %s: want %d rounds, %v\n%s", i, q.level, q.text, q.rounds, want, text)
				}
				if q.commit > 0 != strings.Contains(text, "commit of stock") || q.commit > 0 && !strings.Contains(text, fmt.Sprintf("; %d wide-area round", q.commit)) || !strings.Contains(text, q.read) {
					t.Errorf("region %d, %s: %s: want a commit in %d rounds, read at %s\n%s", i, q.level, q.text, q.commit, q.read, text)
				}
				begun := time.Now()
				lines = simtest.Plain(t, conn, "EXPLAIN ANALYZE "+q.text)
				if took := time.Since(begun); took < want || took > want+3*time.Millisecond+want/20 {
					t.Errorf("region %d, %s: %s: took %v, predicted %v\n%s", i, q.level, q.text, took, want, strings.Join(lines, "\n"))
				}
				if got := simtest.Footer(t, lines, "wide-area rounds that took place"); got != fmt.Sprint(q.rounds) {
					t.Errorf("region %d, %s: %s: %s rounds took place, predicted %d\n%s", i, q.level, q.text, got, q.rounds, strings.Join(lines, "\n"))
				}
				time.Sleep(2 * time.Second)
			}
		}
		// A transaction that removes a row looks for rows that refer to it at a majority.
		simtest.Exec(t, simtest.ConnectTo(t, c, 0, "d"), "CREATE TABLE child (id int PRIMARY KEY, of int REFERENCES stock, INDEX child_of_idx (of)) WITH (commit_protocol = 'fast_paxos')")
		simtest.LeasesRest(t, c) // and so do the voters of the new range: what a gateway knows of it goes on being right
		for i, from := range regions.Names[:2] {
			conn := simtest.ConnectTo(t, c, i, "d")
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO stock VALUES (%d, 5, 'x')", 300+i))
			simtest.Exec(t, conn, "SELECT * FROM child")
			time.Sleep(2 * time.Second)
			all := trips(regions, from)
			want := fmt.Sprintf("%d ms", (all[3] + all[2]).Round(time.Millisecond).Milliseconds())
			lines := simtest.Plain(t, conn, fmt.Sprintf("EXPLAIN ANALYZE DELETE FROM stock WHERE id = %d", 300+i))
			if simtest.Footer(t, lines, "wide-area rounds") != "2" || simtest.Footer(t, lines, "wide-area rounds that took place") != "2" || simtest.Footer(t, lines, "predicted latency") != want {
				t.Errorf("region %d: want 2 rounds, %s\n%s", i, want, strings.Join(lines, "\n"))
			}
			time.Sleep(2 * time.Second)
		}
		// Gateways without a replica look for the keys of new rows at the nearest one.
		conn := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, conn, "CREATE TABLE three (id int PRIMARY KEY, n int) WITH (commit_protocol = 'fast_paxos')")
		simtest.Exec(t, conn, "ALTER TABLE three CONFIGURE ZONE USING num_replicas = 3")
		time.Sleep(2 * time.Minute)
		far := 0
		for i := range regions.Names {
			conn := simtest.ConnectTo(t, c, i, "d")
			simtest.Exec(t, conn, "SELECT * FROM three")
			for k, level := range []string{"read committed", "repeatable read"} {
				simtest.Exec(t, conn, "SET default_transaction_isolation = '"+level+"'")
				lines := simtest.Plain(t, conn, fmt.Sprintf("EXPLAIN ANALYZE INSERT INTO three VALUES (%d, 5)", 10*k+i))
				predicted, got := simtest.Footer(t, lines, "wide-area rounds"), simtest.Footer(t, lines, "wide-area rounds that took place")
				if predicted != got {
					t.Errorf("region %d, %s: %s rounds took place, predicted %s\n%s", i, level, got, predicted, strings.Join(lines, "\n"))
				}
				if k == 0 && got == "2" {
					far++
				}
				time.Sleep(2 * time.Second)
			}
		}
		if far != 2 {
			t.Errorf("%d gateways have no replica, want 2", far)
		}
	})
}

// TestFastPaxosReaderLoses: a transaction that only reads does not fail because rows were written since it began, now or minutes ago; also after a split; it fails when ranges were merged that it has yet to read, and is told why.
func TestFastPaxosReaderLoses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		reader, writer := simtest.ConnectTo(t, c, 0, "d"), simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, writer, "INSERT INTO stock VALUES (8, 100, 'x')")
		simtest.Exec(t, reader, "SET transaction_replay = off")
		simtest.Exec(t, reader, "SELECT * FROM stock")
		time.Sleep(5 * time.Second)
		for _, x := range []struct {
			name            string
			wait            time.Duration
			then            string
			message, detail string
		}{
			{"within the uncertainty interval", 0, "", "", ""},
			{"after two minutes", 2 * time.Minute, "", "", ""},
			{"after a split", 0, "ALTER TABLE stock SPLIT AT VALUES (8)", "", ""},
			{"after a merge", 0, "ALTER TABLE stock UNSPLIT AT VALUES (8)", "could not read at the transaction's timestamp any more",
				"Tables with the commit protocol fast_paxos can be read at a transaction's timestamp until their ranges are merged, get another protocol, or have most of their replicas moved."},
		} {
			simtest.Exec(t, reader, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")
			simtest.Ask[int](t, reader, "SELECT n FROM stock WHERE id = 7")
			for range 3 {
				simtest.Exec(t, writer, "UPDATE stock SET n = n - 1 WHERE id IN (7, 8)")
				time.Sleep(x.wait / 3)
			}
			if x.then != "" {
				simtest.Exec(t, writer, x.then)
			}
			if x.message != "" {
				if err := simtest.Admin(c, 0, &kv.AdminMergeRequest{Key: keys.IndexPrefix(simtest.TableIDOf(t, writer, "stock"), uint32(1))}); err != nil {
					t.Error(err)
				}
			}
			_, err := reader.Exec(context.Background(), "SELECT n FROM stock WHERE id = 8")
			if x.message == "" && err != nil {
				t.Errorf("%s: %v", x.name, err)
			} else if x.message != "" {
				simtest.WantCode(t, err, "40001")
			}
			var e *pgconn.PgError
			if errors.As(err, &e) && (e.Message != x.message || !strings.HasPrefix(e.Detail, x.detail+"\n") || e.Hint != "The transaction might succeed if retried.") {
				t.Errorf("%s: %s; %s; %s", x.name, e.Message, e.Detail, e.Hint)
			}
			simtest.Exec(t, reader, "ROLLBACK")
			time.Sleep(5 * time.Second)
		}
	})
}
