package latency_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/workload"
	"meridian/workload/movr"
)

// TestTutorial types what docs/tutorial.md tells its readers to type into a cluster like that of the demonstration, and compares the answers that the page shows. An answer
// is a block "text" after the block that has the statement; … stands for anything.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		u := &reader{t: t, c: simtest.ThreeContinents(t)}
		defer u.end()
		u.begin()
		typed, compared := 0, 0
		var last []string
		for _, b := range fenced(string(page)) {
			if b.kind == "text" {
				compared++
				u.compare(b, last)
				continue
			}
			for _, line := range typedLines(b.text) {
				typed++
				last = u.typeIn(b.line, line)
			}
		}
		t.Logf("%d statements and commands, %d answers", typed, compared)
		if typed < 30 || compared < 4 {
			t.Errorf("%d statements were found in the page, and %d answers", typed, compared)
		}
	})
}

// block is a fenced block of a page.
type block struct {
	kind, text string
	line       int
}

func fenced(page string) (out []block) {
	var b *block
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```") && b == nil:
			b = &block{kind: strings.TrimPrefix(line, "```"), line: i + 1}
		case strings.HasPrefix(line, "```"):
			out, b = append(out, *b), nil
		case b != nil:
			b.text += line + "\n"
		}
	}
	return out
}

// typedLines are the lines of a block; those of a statement are one.
func typedLines(text string) (out []string) {
	open := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "" || strings.HasPrefix(line, "go run"):
		case open == "" && strings.HasPrefix(line, `\`):
			out = append(out, line)
		case strings.HasSuffix(line, ";"):
			out, open = append(out, open+line), ""
		default:
			open += line + " "
		}
	}
	if open != "" {
		out = append(out, open)
	}
	return out
}

// reader follows the tutorial.
type reader struct {
	t        *testing.T
	c        *simcluster.Cluster
	conn     *pgx.Conn
	at       int // the node that conn is connected to
	database string
	stop     func()
}

// begin makes what the demonstration makes.
func (u *reader) begin() {
	regions := u.regions()
	simtest.Exec(u.t, simtest.Connect(u.t, u.c, 0), movr.CreateDatabase("movr", regions))
	u.connect(0, "movr")
	if err := movr.LoadSample(context.Background(), u.conn, regions...); err != nil {
		u.t.Fatal(err)
	}
	time.Sleep(20 * time.Second) // somebody reads the first page
}

// regions are those of the cluster, in the order of its machines.
func (u *reader) regions() (out []string) {
	for _, m := range u.c.Machines {
		if !slices.Contains(out, m.Region) {
			out = append(out, m.Region)
		}
	}
	return out
}

func (u *reader) end() {
	if u.stop != nil {
		u.stop()
	}
}

func (u *reader) connect(i int, database string) {
	u.at, u.database = i, database
	u.conn = simtest.ConnectTo(u.t, u.c, i, database)
}

// typeIn runs one line, and returns the lines of its answer; cells are separated by bars.
func (u *reader) typeIn(at int, line string) (out []string) {
	u.t.Helper()
	if command, ok := strings.CutPrefix(line, `\demo `); ok {
		u.command(at, strings.Fields(command))
		time.Sleep(2 * time.Second) // people read what it says
		return nil
	}
	if name, ok := strings.CutPrefix(line, `\c `); ok {
		u.connect(u.at, name)
		return nil
	}
	if strings.HasPrefix(line, `\`) {
		u.t.Errorf("line %d: %s is no command of the demonstration", at, line)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begin := time.Now()
	results := u.conn.PgConn().Exec(ctx, line)
	for results.NextResult() {
		r := results.ResultReader()
		out = nil
		var names []string
		for _, f := range r.FieldDescriptions() {
			names = append(names, f.Name)
		}
		if names != nil {
			out = append(out, strings.Join(names, "|"))
		}
		rows := 0
		for r.NextRow() {
			var cells []string
			for _, v := range r.Values() {
				cells = append(cells, string(v))
			}
			rows++
			out = append(out, strings.Split(strings.Join(cells, "|"), "\n")...)
		}
		tag, _ := r.Close()
		if names == nil {
			out = append(out, tag.String())
		} else if rows == 1 {
			out = append(out, "(1 row)")
		} else {
			out = append(out, fmt.Sprintf("(%d rows)", rows))
		}
	}
	if err := results.Close(); err != nil {
		detail := ""
		if pg, ok := err.(*pgconn.PgError); ok {
			detail = pg.Detail + " " + pg.Hint
		}
		u.t.Errorf("line %d: %s: %v %s", at, line, err, detail)
	}
	u.t.Logf("%8.3fs  %s", time.Since(begin).Seconds(), line)
	return out
}

// nodes are those of a place.
func (u *reader) nodes(at int, place string) (out []int) {
	for i, m := range u.c.Machines {
		if place == m.Name || place == m.Zone || place == m.Region {
			out = append(out, i)
		}
	}
	if out == nil {
		u.t.Fatalf("line %d: %s is no place", at, place)
	}
	return out
}

// command does to the cluster what the command of the demonstration does; the commands themselves have tests in cmd/meridian.
func (u *reader) command(at int, words []string) {
	c := u.c
	switch verb, args := words[0], words[1:]; {
	case verb == "load" && len(args) == 1 && args[0] == "on":
		u.load()
	case verb == "load" && len(args) == 1 && args[0] == "off":
		u.end()
		u.stop = nil
	case verb == "latency" && len(args) == 0:
	case verb == "watch" && len(args) == 1:
		seconds, err := strconv.Atoi(args[0])
		if err != nil {
			u.t.Errorf("line %d: %v", at, err)
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	case verb == "kill" && len(args) == 1:
		for _, i := range u.nodes(at, args[0]) {
			c.Crash(i, 0, true)
		}
	case verb == "restart" && len(args) == 1:
		for _, i := range u.nodes(at, args[0]) {
			c.Boot(i)
		}
	case verb == "cut" && len(args) == 1:
		inside := u.nodes(at, args[0])
		for _, i := range inside {
			for j := range c.Len() {
				if !slices.Contains(inside, j) {
					c.Network.Partition(c.Machines[i].Name, c.Machines[j].Name)
				}
			}
		}
	case verb == "heal" && len(args) == 0:
		c.Network.HealAll()
	case verb == "rtt" && len(args) == 3:
		ms, err := time.ParseDuration(args[2] + "ms")
		if err != nil {
			u.t.Errorf("line %d: %v", at, err)
		}
		c.Network.SetRTT(args[0], args[1], ms)
	case verb == "use" && len(args) == 1:
		u.connect(u.nodes(at, args[0])[0], u.database)
	default:
		u.t.Errorf("line %d: \\demo %s is not known to this test", at, strings.Join(words, " "))
	}
}

// load is one customer in each region.
func (u *reader) load() {
	regions := u.regions()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, len(regions))
	for r, region := range regions {
		go func() {
			defer func() { ended <- struct{}{} }()
			w := movr.New()
			w.Cities = movr.CitiesOf(region, regions)
			step, err := w.Worker(ctx, rand.New(rand.NewPCG(uint64(r), 1)))
			if err != nil {
				u.t.Error(err)
				return
			}
			var conn *pgx.Conn
			for n := 0; ctx.Err() == nil; n++ {
				if conn == nil || conn.IsClosed() {
					if conn, err = u.c.Connect(ctx, 3*r+n%3, "movr"); err != nil {
						conn = nil
						time.Sleep(100 * time.Millisecond)
						continue
					}
				}
				// A node that is killed takes its statements with it, and one that is cut off can't answer.
				if _, err := step(ctx, conn); err != nil && ctx.Err() == nil && !workload.Retryable(err) {
					if pg, ok := err.(*pgconn.PgError); ok && pg.Code[:2] == "42" {
						u.t.Errorf("a step in %s: %v", region, err)
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			if conn != nil {
				conn.Close(context.Background())
			}
		}()
	}
	u.stop = func() {
		cancel()
		for range regions {
			<-ended
		}
	}
}

// compare reports where an answer differs from the one that the page shows.
func (u *reader) compare(b block, got []string) {
	u.t.Helper()
	var want []string
	for line := range strings.SplitSeq(strings.TrimSpace(b.text), "\n") {
		if strings.Trim(line, "-+ ") == "" {
			continue // what is between the names and the rows
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSuffix(strings.TrimSpace(cells[i]), "+")
		}
		want = append(want, strings.Join(cells, "|"))
	}
	clean := func(s string) string {
		cells := strings.Split(s, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		return strings.Join(cells, "|")
	}
	ok := len(want) == len(got)
	for i := range want {
		if !ok {
			break
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(clean(want[i])), "…", ".*") + "$"
		ok = regexp.MustCompile(pattern).MatchString(clean(got[i]))
	}
	if !ok {
		u.t.Errorf("line %d: the answer is\n%s\nand the page shows\n%s", b.line, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
