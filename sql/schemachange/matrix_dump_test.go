package schemachange_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian/bench/postgres"
	"meridian/sql/catalog"
	"meridian/sql/pgwire"
	"meridian/sql/session/sessiontest"
)

// dumped is how many of a world's changes a run dumps.
const dumped = 3

// notRestored are worlds whose dump is made, but can't be restored as it is, with the reason.
var notRestored = map[string]string{
	"views":          "pg_dump makes materialized views WITH NO DATA, which are not supported",
	"parents by row": "a foreign key refers to the region column and to a key that has it implicitly, which PostgreSQL does not know",
}

// programs is the folder of PostgreSQL's programs.
func programs() string { return cmp.Or(os.Getenv("PGBIN"), postgres.DefaultBin) }

// tool runs a program of PostgreSQL against a database.
func tool(t *testing.T, name string, in []byte, args ...string) (out, problems string, err error) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, filepath.Join(programs(), name), args...)
	c.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=10", "PGTZ=UTC")
	var o, e bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &o, &e
	err = c.Run()
	return o.String(), e.String(), err
}

// differing are the lines that one of two texts has and the other has not, or not so often.
func differing(is, was string) string {
	count := make(map[string]int)
	for line := range strings.SplitSeq(is, "\n") {
		count[line]++
	}
	for line := range strings.SplitSeq(was, "\n") {
		count[line]--
	}
	var out strings.Builder
	for _, line := range slices.Sorted(maps.Keys(count)) {
		if n := count[line]; n != 0 {
			fmt.Fprintf(&out, "\n%+d %s", n, line)
		}
	}
	return out.String()
}

// listing is a statement for the rows of each table and view of a database, without hidden columns.
func (b *bench) listing() (out []string) {
	for _, r := range b.relations() {
		if r.Kind == catalog.KindSequence {
			continue
		}
		var cols []string
		for i := range r.Columns {
			if c := &r.Columns[i]; !c.Hidden && c.State == catalog.Public {
				cols = append(cols, `"`+c.Name+`"`)
			}
		}
		out = append(out, fmt.Sprintf("select %s from %s", strings.Join(cols, ", "), b.name(r)))
	}
	return out
}

// contents are the answers to statements, each with its rows in order.
func (b *bench) contents(t *testing.T, listing []string) string {
	var out strings.Builder
	for _, sql := range listing {
		rows, err := b.exec(sql)
		if err != nil {
			t.Errorf("%s: %s", sql, sessiontest.Describe(err))
		}
		fmt.Fprintf(&out, "%s\n%s\n", sql, sorted(rows))
	}
	return out.String()
}

// sorted is a text with its lines in order.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestMatrixOfDumps makes changes of TestMatrixOfChanges, in real time, and dumps each result with PostgreSQL's pg_dump. The dump is restored into another database, which has the same rows then, and whose dump is
// the same. MERIDIAN_MATRIX chooses changes as there. It is skipped where PostgreSQL 15 is not installed.
func TestMatrixOfDumps(t *testing.T) {
	if _, err := os.Stat(filepath.Join(programs(), "pg_dump")); err != nil {
		t.Skipf("NOT DUMPED, because PostgreSQL 15 is not installed: %v (PGBIN names its folder)", err)
	}
	which := os.Getenv("MERIDIAN_MATRIX")
	for i := range worlds {
		w := &worlds[i]
		t.Run(w.name, func(t *testing.T) {
			h := fnv.New64()
			h.Write([]byte(w.name))
			dice := rand.New(rand.NewPCG(2, h.Sum64()))
			c := sessiontest.NewIn(t, 1, threeRegions())
			defer c.Stop()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			wire := pgwire.NewServer(pgwire.Options{Host: c.Nodes[0].Host, Sessions: c.Nodes[0].Server, Insecure: true})
			c.Nodes[0].Host.Group.Go(func(context.Context) { wire.Serve(l) })
			url := func(db string) string { return fmt.Sprintf("postgresql://root@%s/%s?sslmode=disable", l.Addr(), db) }
			b := &bench{t: t, c: c, w: w, dice: dice, root: c.Nodes[0].Open(t, "root"), failed: t.Errorf}
			defer b.root.Close()
			b.open()
			all := b.changes()
			b.leave()
			picked := append([]string{"select 1"}, w.always...)
			switch {
			case which == "all" || which == "log":
				picked = append(picked, all...)
			case which != "":
				picked = slices.DeleteFunc(append(picked, all...), func(s string) bool { return !strings.Contains(s, which) })
			default:
				for _, i := range dice.Perm(len(all))[:dumped] {
					picked = append(picked, all[i])
				}
			}
			for _, change := range picked {
				b.open()
				if _, err := b.exec(change); err != nil { // it changes nothing
					b.conn.Exec("rollback")
					if change != "select 1" && which != "all" {
						b.leave()
						continue
					}
				}
				b.dump(t, change, url)
				b.leave()
			}
		})
	}
}

// dump dumps the bench's database, restores it, and compares.
func (b *bench) dump(t *testing.T, change string, url func(string) string) {
	d := b.database()
	if d == nil {
		return
	}
	dump := func(db string) string {
		out, problems, err := tool(t, "pg_dump", nil, url(db))
		if err != nil {
			t.Errorf("%s, then %s: pg_dump: %v\n%s", b.w.name, change, err, problems)
		}
		return regexp.MustCompile(`(?m)^(\\(un)?restrict |--|COMMENT ON SCHEMA public IS ''|$).*\n`).ReplaceAllString(out, "")
	}
	script := dump(d.Name)
	if script == "" {
		return
	}
	if notRestored[b.w.name] != "" {
		return
	}
	copied := b.db + "copy"
	b.root.Must("create database " + copied) // a dump has no regions
	leaderless := strings.Contains(script, "commit_protocol")
	if leaderless {
		script = "SET ignore_commit_protocol = on;\n" + script // docs/sql.md
	}
	_, problems, err := tool(t, "psql", []byte(script), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.DevNull, url(copied))
	if err != nil {
		t.Errorf("%s, then %s: restore: %v\n%s", b.w.name, change, err, problems)
		return
	}
	listing := b.listing()
	was, db, conn := b.contents(t, listing), b.db, b.conn
	b.db, b.conn = copied, b.c.Nodes[0].OpenIn(t, "root", copied)
	is := b.contents(t, listing)
	b.conn.Close()
	b.db, b.conn = db, conn
	if was != is {
		t.Errorf("%s, then %s: the copy has %s", b.w.name, change, differing(is, was))
	}
	if again, script := sorted(dump(copied)), sorted(script); again != script && !leaderless { // rows are in the order of their regions
		t.Errorf("%s, then %s: the copy's dump has %s", b.w.name, change, differing(again, script))
	}
	b.root.Must("drop database " + copied + " cascade")
}
