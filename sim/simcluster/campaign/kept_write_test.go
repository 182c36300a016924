package campaign_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/commit/register"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/storage/engine"
	"meridian/version"
)

// writeKept writes the stores of this build's release, a list of their contents, and the answers of their cluster.
func writeKept(t *testing.T) {
	w := &keptWriter{kept: kept{release: version.Built().Own}}
	synctest.Test(t, func(t *testing.T) { w.write(t) })
	if !t.Failed() {
		synctest.Test(t, func(t *testing.T) { w.answers(t) })
	}
}

const unfinished = "SELECT count(*) FROM meridian_internal.jobs WHERE finished IS NULL"

type keptWriter struct {
	kept
	mu    sync.Mutex // guards acked
	acked []int
	// before are the pairs that were acknowledged before the disks were copied.
	before []int
}

func (w *keptWriter) write(t *testing.T) {
	o := keptCluster()
	o.Configure = func(i int, o *server.Options) {
		if o.RemoveAfter = 30 * time.Second; i == 1 {
			o.TxnBufferBytes = 1 // writes leave before the commit
		}
	}
	w.c = simcluster.Start(t, o)
	simtest.Replicated(t, w.c, 3)
	ctx := t.Context()
	conn := simtest.Connect(t, w.c, 0)
	for _, q := range statements(t, "make.sql") {
		simtest.Exec(t, conn, q)
	}
	for answer(ctx, conn, unfinished) != "0" {
		time.Sleep(time.Second)
	}
	// A range that has had another protocol is in a later generation, and has the remains of sealing the earlier ones.
	var id uint32
	if err := conn.QueryRow(ctx, "SELECT 'folded'::regclass::oid").Scan(&id); err != nil {
		t.Fatal(err)
	}
	folded := keys.TableKey(id)
	if err := simtest.Admin(w.c, 0, &kv.AdminSplitRequest{Key: folded}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []kv.Protocol{register.Protocol, kv.Leader} {
		if err := simtest.Admin(w.c, 0, &kv.AdminSetProtocolRequest{Key: folded, Protocol: p}); err != nil {
			t.Fatal(err)
		}
	}
	simtest.Replicated(t, w.c, 3)

	simtest.Exec(t, conn, "DROP TABLE removed_later")
	if answer(ctx, conn, unfinished) == "0" {
		t.Error("the job that removes the table's rows is done already")
	}
	open := simtest.Connect(t, w.c, 1)
	simtest.Exec(t, open, "BEGIN")
	simtest.Exec(t, open, "INSERT INTO pair_a VALUES (5000, 1)")
	simtest.Exec(t, open, "SAVEPOINT a")
	simtest.Exec(t, open, "INSERT INTO pair_b VALUES (5000, 1)")
	simtest.Exec(t, open, "ROLLBACK TO a")
	simtest.Exec(t, open, "INSERT INTO pair_b SELECT 5000, count(*) FROM pair_a WHERE id = 5000") // which makes the gateway send the writes
	time.Sleep(3 * time.Second)                                                                   // the transaction has a record
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for client := range 6 {
		clients.Go(func() { w.insertPairs(t, client, stop) })
	}
	w.picture(t)
	close(stop)
	clients.Wait()
}

// insertPairs commits rows into two tables on two ranges.
func (w *keptWriter) insertPairs(t *testing.T, client int, stop chan struct{}) {
	conn, err := w.c.Connect(context.Background(), client%w.c.Len(), "defaultdb")
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	for id := 1000 + client; ; id += 10 {
		select {
		case <-stop:
			return
		default:
		}
		q := fmt.Sprintf("BEGIN; INSERT INTO pair_a VALUES (%d, %d); INSERT INTO pair_b VALUES (%d, %d); COMMIT", id, client, id, client)
		if _, err := conn.PgConn().Exec(context.Background(), q).ReadAll(); err != nil {
			t.Error(err)
			return
		}
		w.mu.Lock()
		w.acked = append(w.acked, id)
		w.mu.Unlock()
		time.Sleep(time.Duration(client+5) * time.Millisecond)
	}
}

// picture copies the disks at a moment at which there is something unfinished of each kind.
func (w *keptWriter) picture(t *testing.T) {
	for range 500 {
		time.Sleep(7 * time.Millisecond)
		w.mu.Lock()
		w.before = slices.Sorted(slices.Values(w.acked))
		w.mu.Unlock()
		now := time.Now()
		var images []*sim.Image
		applied := make([]map[kv.RangeID]uint64, w.c.Len())
		for i, m := range w.c.Machines {
			applied[i] = map[kv.RangeID]uint64{}
			w.c.Node(i).Store().Replicas(func(r *replica.Replica) bool {
				applied[i][r.RangeID()] = r.AppliedIndex()
				return true
			})
			images = append(images, m.Disk.Image())
		}
		all := contents{}
		var text strings.Builder
		var disks []*sim.Disk
		for i, image := range images {
			d := sim.NewDisk(uint64(i))
			d.Restore(image)
			disks = append(disks, d)
			c := listStore(t, image, applied[i])
			fmt.Fprintf(&text, "# n%d\n%s\n", i+1, c.text)
			all.staging, all.pending, all.locks, all.unapplied = all.staging+c.staging, all.pending+c.pending, all.locks+c.locks, all.unapplied+c.unapplied
		}
		abandoned := strings.Count(text.String(), "/5000\n") // locks of the open transaction
		if abandoned < 2*len(images) || all.staging < 2 || all.pending < 2 || all.locks < 4 || all.unapplied == 0 || len(w.before) < 10 {
			continue
		}
		packed := archive(t, disks, now)
		t.Logf("%d bytes: %d staging and %d pending records, %d locks, %d entries not applied", len(packed), all.staging, all.pending, all.locks, all.unapplied)
		head := fmt.Sprintf("# Release %s, written at %s of virtual time. %d pairs were acknowledged.\n\n", w.release, now.UTC().Format(time.RFC3339Nano), len(w.before))
		for name, content := range map[string]string{".tar.gz": string(packed), ".list": head + text.String()} {
			if err := os.WriteFile(w.file(name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	t.Fatal("there was no moment at which there is something of everything")
}

// answers runs the queries of look.sql.
func (w *keptWriter) answers(t *testing.T) {
	w.c = simcluster.New(t, keptCluster())
	written := readStores(t, w.file(".tar.gz"), w.c)
	time.Sleep(time.Until(written) + time.Hour)
	w.boot()
	questions := statements(t, "look.sql")
	var b strings.Builder
	fmt.Fprintf(&b, "# What the stores of release %s answer. The first part says what was acknowledged before they were copied.\n\n", w.release)
	ids := strings.Trim(strings.ReplaceAll(fmt.Sprint(w.before), " ", ","), "[]")
	acknowledged := "select count(*) from pair_a join pair_b using (id) where id in (" + ids + ")"
	questions = append([]string{acknowledged}, questions...)
	for i, a := range asked(t, w.c, 0, questions) {
		if i == 0 && a != fmt.Sprint(len(w.before)) {
			t.Fatalf("%s of %d pairs are there", a, len(w.before))
		}
		fmt.Fprintf(&b, "%s%s%s\n\n", questions[i], answerLine, a)
	}
	if err := os.WriteFile(w.file(".txt"), []byte(strings.TrimSuffix(b.String(), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// contents is a readable list of a store's contents, and of the unfinished work in it.
type contents struct {
	text                               string
	staging, pending, locks, unapplied int
}

// listStore lists a copy of a store, with the log entries beyond the applied indexes.
func listStore(t *testing.T, image *sim.Image, applied map[kv.RangeID]uint64) (c contents) {
	m := sim.NewMachine(sim.MachineOptions{Name: "copy", Network: sim.NewNetwork(sim.NetworkOptions{})})
	m.Disk.Restore(image)
	h := m.Boot(context.Background())
	defer h.Group.Stop()
	e, err := engine.Open(h, "store", engine.Options{MustExist: true, ReserveBytes: -1, MemTableBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var b strings.Builder
	acting, promised := e.Version()
	fmt.Fprintf(&b, "version: acting %s, promised %s\n", acting, promised)
	descs, err := rangeserver.Descriptors(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range descs {
		fmt.Fprintf(&b, "%v, protocol %s\n", &d, d.Protocol)
	}
	it, err := e.NewIter(engine.IterOptions{Lower: keys.Min, Upper: keys.Max})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	counts, logs := map[string]int{}, map[kv.RangeID][2]uint64{}
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		if id, index, err := keys.DecodeRaftLogKey(k); err == nil {
			l, old := logs[kv.RangeID(id)]
			if !old {
				l[0] = index
			}
			l[1] = index
			logs[kv.RangeID(id)] = l
			continue
		}
		if _, _, err := keys.DecodeTxnKey(k); err == nil {
			v, err := it.Value()
			if err != nil {
				t.Fatal(err)
			}
			r, err := commit.DecodeRecord(v)
			if err != nil {
				t.Fatal(err)
			}
			switch r.Status {
			case kv.Staging:
				c.staging++
			case kv.Pending:
				c.pending++
			}
			fmt.Fprintf(&b, "%s: %s, %d writes in flight, %d spans of locks\n", k, r.Status, len(r.InFlight), len(r.LockSpans))
			continue
		}
		if _, err := keys.DecodeLockKey(k); err == nil {
			c.locks++
			fmt.Fprintf(&b, "%s\n", k)
			continue
		}
		if table, index, _, err := keys.DecodeIndexKey(k); err == nil {
			counts[fmt.Sprintf("/Table/%d/%d", table, index)]++
			continue
		}
		counts[k.String()]++
	}
	if err := it.Error(); err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		l := logs[id]
		fmt.Fprintf(&b, "r%d: log from %d to %d", id, l[0], l[1])
		if at := applied[id]; at < l[1] {
			c.unapplied += int(l[1] - max(at, l[0]-1))
			fmt.Fprintf(&b, ", applied up to %d", at)
		}
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s: %d\n", name, counts[name])
	}
	c.text = b.String()
	return c
}
