package campaign_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/version"
)

// Each release leaves the stores of a small cluster in testdata/stores, and every later build opens them here. The README there
// says how they are written.

const keptDir = "testdata/stores"

var rewriteKept = flag.Bool("write-stores", false, "write the stores of this build's version into "+keptDir)

// keptCluster are the options with which kept stores are written and read: those of a cluster of three nodes.
func keptCluster() simcluster.Options {
	return simcluster.Options{Log: simtest.LogTo(), Registers: true, LocalRTT: 4 * time.Millisecond}
}

// TestKeptStores opens the stores of every release with this build, and reads the data of their cluster.
func TestKeptStores(t *testing.T) {
	t.Parallel()
	if *rewriteKept {
		writeKept(t)
	}
	names, err := filepath.Glob(filepath.Join(keptDir, "*.tar.gz"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	own := false
	for _, name := range names {
		release := strings.TrimSuffix(filepath.Base(name), ".tar.gz")
		v, err := version.Parse(release)
		if err != nil {
			t.Fatal(err)
		}
		own = own || v == version.Built().Oldest
		t.Run(release, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { (&kept{release: v}).run(t) })
		})
	}
	if !own {
		t.Errorf("there is no store of release %s: see %s/README.md", version.Built().Oldest, keptDir)
	}
}

// TestStoresOfBefore: a binary that no longer supports the release of kept stores refuses them by name, and leaves them unchanged.
func TestStoresOfBefore(t *testing.T) {
	t.Parallel()
	release := version.Built().Oldest
	oldest := version.Version{Major: release.Major, Minor: release.Minor + 1}
	k := &kept{release: release, binary: version.Binary{Own: version.Version{Major: release.Major, Minor: release.Minor + 2}, Oldest: oldest}}
	synctest.Test(t, func(t *testing.T) { k.run(t) })
}

// kept is the test of one release's stores.
type kept struct {
	release version.Version
	binary  version.Binary // zero: this build
	c       *simcluster.Cluster
}

func (k *kept) file(suffix string) string { return filepath.Join(keptDir, k.release.String()+suffix) }

func (k *kept) run(t *testing.T) {
	o := keptCluster()
	o.Binary = func(int, error) version.Binary { return k.binary.Or(version.Built()) }
	k.c = simcluster.New(t, o)
	written := readStores(t, k.file(".tar.gz"), k.c)
	time.Sleep(time.Until(written) + time.Hour) // the clock guard, leases and liveness are long past
	if k.release.Less(k.binary.Or(version.Built()).Oldest) {
		k.refused(t)
		return
	}
	questions, want := readAnswers(t, k.file(".txt"))
	answersAre := func(when string) {
		t.Helper()
		for i := range k.c.Len() {
			for j, got := range asked(t, k.c, i, questions) {
				if got != want[j] {
					t.Errorf("%s, at n%d: %s\n%s\nwant\n%s", when, i+1, questions[j], got, want[j])
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	k.boot()
	answersAre("at first")
	simtest.RestWithin(t, k.c, 20*time.Second)
	for i := range k.c.Len() {
		k.c.Crash(i, 0, false)
	}
	k.boot()
	answersAre("after a restart")
	for i := range k.c.Len() {
		if got := k.c.Node(i).Version().Acting(); got != k.release {
			t.Errorf("n%d acts by %s", i+1, got)
		}
	}
	if k.release.Less(version.Built().Own) {
		finalize(t, k.c)
		answersAre("after the upgrade")
	}
	k.use(t)
	simtest.RestWithin(t, k.c, 20*time.Second)
	for _, p := range simtest.Compared(k.c) {
		t.Error(p)
	}
	for i := range k.c.Len() {
		k.c.StopNode(i)
	}
	k.boot()
	time.Sleep(5 * time.Minute) // ranges that were not split by hand are merged
	k.used(t)
	simtest.RestWithin(t, k.c, 20*time.Second)
}

func (k *kept) boot() {
	for i := range k.c.Len() {
		k.c.Boot(i)
	}
	for i := range k.c.Len() {
		k.c.WaitReady(i)
	}
}

// refused expects that stores of a release before the oldest one are left alone.
func (k *kept) refused(t *testing.T) {
	for i, m := range k.c.Machines {
		before := m.Disk.Written()
		if err := k.c.TryBoot(i); !errors.As(err, new(*version.TooNewError)) || m.Disk.Written() != before {
			t.Errorf("n%d: %v; %d bytes were written", i+1, err, m.Disk.Written()-before)
		}
	}
}

// use writes to the tables, and changes their schema.
func (k *kept) use(t *testing.T) {
	conn := simtest.Connect(t, k.c, 1)
	for _, q := range []string{
		"INSERT INTO types (id, t, u) VALUES (100, 'new', '00000000-0000-0000-0000-000000000100')",
		"UPDATE types SET t = t || '!', m = 'calm' WHERE id < 3",
		"INSERT INTO parent (name) VALUES ('new')",
		"UPDATE parent SET id = id + 1000 WHERE id <= 10",
		"DELETE FROM parent WHERE id = 20",
		"INSERT INTO child (parent_id, val) VALUES (1001, 'new')",
		"UPDATE changed SET kept = kept + 1, added = 'now'",
		"CREATE INDEX ON changed (added)",
		"ALTER TABLE changed DROP COLUMN renamed",
		"ALTER TABLE child ADD COLUMN later int DEFAULT 5",
		"ALTER TYPE mood ADD VALUE 'late'",
		"INSERT INTO folded VALUES (6, 6)",
		"INSERT INTO pair_a VALUES (6000, 1)",
		"INSERT INTO pair_b VALUES (6000, 1)",
		"DROP VIEW moods",
		"REVOKE SELECT ON parent FROM reader",
		"ALTER ROLE reader RESET statement_timeout",
		"SELECT nextval('s2.sq')",
		"ANALYZE",
	} {
		simtest.Exec(t, conn, q)
	}
	for _, q := range []string{"INSERT INTO types (id, u) VALUES (101, '00000000-0000-0000-0000-000000000001')", "INSERT INTO child (val) VALUES ('new')",
		"INSERT INTO child (parent_id, val) VALUES (77, 'nobody')", "INSERT INTO parent (n) VALUES (-1)"} {
		if _, err := conn.Exec(context.Background(), q); err == nil {
			t.Errorf("%s: a constraint is not heeded", q)
		}
	}
	k.used(t)
}

// used reads the rows that use has written, and compares every index with its table.
func (k *kept) used(t *testing.T) {
	t.Helper()
	want := []string{"new", "1, new", "0, new, -1, new", "2", "11, 11, now", "6", "1", "6000", "2"}
	for i := range k.c.Len() {
		for j, got := range asked(t, k.c, i, []string{
			"select t from types where u = '00000000-0000-0000-0000-000000000100'",
			"select count(*), max(name) from parent where name = 'new'",
			"select count(*) filter (where parent_id = 20), max(val) filter (where val = 'new'), -1, 'new' from child",
			"select count(*) from types where m = 'calm'",
			"select count(*), count(kept), max(added) from changed",
			"select count(*) from folded",
			"select count(*) from child where val = 'new' and later = 5",
			"select max(id) from pair_a a join pair_b b using (id)",
			"select count(*) from meridian_internal.ranges where start_key like '/Table/%/1/%' and start_key not like '%/5'", // SPLIT AT
		}) {
			if got != want[j] {
				t.Errorf("at n%d, answer %d: %s, want %s", i+1, j, got, want[j])
			}
		}
		s := &schemaCampaign{campaign: &campaign{c: k.c, start: time.Now()}}
		if n, err := s.checkIndexes(t.Context(), i); err != nil || n < 8 {
			t.Errorf("at n%d: %d indexes were compared: %v", i+1, n, err)
		}
		for _, p := range s.problems {
			t.Error(p)
		}
	}
}

// finalize ends the upgrade of a cluster, as `meridian upgrade finalize` does.
func finalize(t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	a := c.Admin(0)
	defer a.Close()
	if to, err := a.Finalize(t.Context(), func(*server.Upgrade) {}); err != nil || to != version.Built().Own {
		t.Fatalf("finalized %s: %v", to, err)
	}
}

// asked gives the answers of a node: rows are lines, and values are separated by commas.
func asked(t *testing.T, c *simcluster.Cluster, i int, questions []string) (answers []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := c.Connect(ctx, i, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, q := range questions {
		answers = append(answers, answer(ctx, conn, q))
	}
	return answers
}

func answer(ctx context.Context, conn *pgx.Conn, q string) string {
	results, err := conn.PgConn().Exec(ctx, q).ReadAll()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			for i, v := range row {
				if i > 0 {
					b.WriteString(", ")
				}
				if v == nil {
					b.WriteString("NULL")
				}
				b.WriteString(strings.ReplaceAll(string(v), "\n", " "))
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// statements divides a script: a statement ends with a semicolon at the end of a line.
func statements(t *testing.T, file string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(keptDir, file))
	if err != nil {
		t.Fatal(err)
	}
	for q := range strings.SplitSeq(string(b), ";\n") {
		var lines []string
		for l := range strings.Lines(q) {
			if !strings.HasPrefix(l, "--") {
				lines = append(lines, l)
			}
		}
		if q = strings.TrimSpace(strings.Join(lines, "")); q != "" {
			out = append(out, q)
		}
	}
	return out
}

const answerLine = "\n----\n"

// readAnswers reads the questions of a release, and the answers that its own build gave.
func readAnswers(t *testing.T, name string) (questions, answers []string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(b), "\n\n") {
		if strings.HasPrefix(part, "#") {
			continue
		}
		q, a, ok := strings.Cut(part+"\n", answerLine)
		if !ok {
			t.Fatalf("%s: %q has no answer", name, part)
		}
		questions, answers = append(questions, q), append(answers, strings.TrimSpace(a))
	}
	return questions, answers
}

// readStores puts the stores of a file on a cluster's disks, and says when they were written.
func readStores(t *testing.T, name string, c *simcluster.Cluster) (written time.Time) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		written = h.ModTime
		machine, path, _ := strings.Cut(h.Name, "/")
		for _, m := range c.Machines {
			if m.Name == machine {
				writeFile(t, m.Disk.FS(), path, r)
			}
		}
	}
	return written
}

func writeFile(t *testing.T, fs vfs.FS, path string, r io.Reader) {
	t.Helper()
	dir := fs.PathDir(path)
	err := fs.MkdirAll(dir, 0o755)
	var f vfs.File
	if err == nil {
		f, err = fs.Create(path, vfs.WriteCategoryUnspecified)
	}
	if err == nil {
		if _, err = io.Copy(f, r); err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
	}
	for ; err == nil; dir = fs.PathDir(dir) {
		var d vfs.File
		if d, err = fs.OpenDir(dir); err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if dir == fs.PathDir(dir) {
			break
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// archive is the files of disks as a compressed archive.
func archive(t *testing.T, disks []*sim.Disk, written time.Time) []byte {
	t.Helper()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	w := tar.NewWriter(z)
	for i, d := range disks {
		fs := d.FS()
		var add func(dir string)
		add = func(dir string) {
			names, err := fs.List(dir)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(names)
			for _, n := range names {
				path := fs.PathJoin(dir, n)
				info, err := fs.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if info.IsDir() {
					add(path)
					continue
				}
				f, err := fs.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				content, err := io.ReadAll(f)
				if err != nil {
					t.Fatal(err)
				}
				_ = f.Close()
				err = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("n%d/%s", i+1, path), Mode: 0o644, Size: int64(len(content)), ModTime: written})
				if err == nil {
					_, err = w.Write(content)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		add("store")
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
