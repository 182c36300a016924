package schemachange_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian/sql/catalog"
	"meridian/sql/job"
	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// regions are those of the database defaultdb as a node knows them, and those that are changing.
func regions(t testing.TB, n *sessiontest.Node) (all, changing []string) {
	t.Helper()
	var db *catalog.Database
	for _, d := range []catalog.ID{table(t, n, "t").Database} {
		db = n.Leases.Snapshot().DatabaseByID(d)
	}
	return db.Regions, db.Changing
}

// labels are the values of the enum of the regions, with their states.
func labels(t testing.TB, n *sessiontest.Node) (out []string) {
	t.Helper()
	db := n.Leases.Snapshot().DatabaseByID(table(t, n, "t").Database)
	for _, v := range n.Leases.Snapshot().Descriptor(db.RegionEnum).Type.Enum.Values {
		out = append(out, v.Label)
		if v.State != types.ValuePublic {
			t.Errorf("%s is in state %d", v.Label, v.State)
		}
	}
	return out
}

// Regions come and go while three nodes write rows with them, and build indexes: a region goes only when no row has it, and no row has a region that is not there
// (schemachange.SC9).
func TestRegionsOnline(t *testing.T) {
	names := []string{"ap", "eu", "me", "us"}
	for seed := range uint64(3) {
		online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
			ddl := c.Nodes[0].Open(t, "root")
			defer ddl.Close()
			ddl.Must(`alter database defaultdb set primary region "eu"`)
			ddl.Must("create table t (id int primary key, r crdb_internal_region not null default 'eu'); create table u (r crdb_internal_region, id int, primary key (r, id))")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for i, n := range c.Nodes {
				wg.Go(func() {
					s := n.Open(t, "root")
					defer s.Close()
					dice := rand.New(rand.NewPCG(seed, uint64(i)))
					for k := 0; ; k++ {
						select {
						case <-stop:
							return
						default:
						}
						r, id := names[dice.IntN(len(names))], dice.IntN(8)
						q := []string{
							fmt.Sprintf("upsert into t values (%d, '%s')", id, r),
							fmt.Sprintf("insert into u values ('%s', %d) on conflict do nothing", r, id),
							fmt.Sprintf("update t set r = '%s' where id = %d", r, id),
							fmt.Sprintf("delete from t where id = %d", id),
							fmt.Sprintf("delete from u where id = %d", id),
							"select * from t", "select * from u",
						}[dice.IntN(7)]
						if _, err := s.Exec(q); err != nil {
							switch session.Outcome(err).Code {
							case sqlstate.InvalidTextRepresentation, sqlstate.SerializationFailure: // the region is not there
							default:
								t.Errorf("%s: %s", q, sessiontest.Describe(err))
								return
							}
						}
						time.Sleep(time.Duration(1+dice.IntN(4)) * time.Millisecond)
					}
				})
			}
			dice := rand.New(rand.NewPCG(seed, 99))
			added, dropped, refused := 0, 0, 0
			for range 60 {
				r := names[dice.IntN(len(names))]
				if r == "eu" {
					continue
				}
				conn := ddl
				_, err := conn.Exec(fmt.Sprintf("alter database defaultdb add region %q", r))
				if err == nil {
					added++
				} else if !sessiontest.ErrIs(err, sqlstate.DuplicateObject) {
					t.Fatal(sessiontest.Describe(err))
				}
				time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
				_, err = conn.Exec(fmt.Sprintf("alter database defaultdb drop region %q", r))
				switch {
				case err == nil:
					dropped++
					if all, _ := regions(t, c.Nodes[0]); slices.Contains(all, r) {
						t.Errorf("%s is still there", r)
					}
				case sessiontest.ErrIs(err, sqlstate.DependentObjectsExist):
					refused++
				default:
					t.Fatal(sessiontest.Describe(err))
				}
			}
			close(stop)
			wg.Wait()
			if added == 0 || dropped == 0 || refused == 0 {
				t.Errorf("%d regions added, %d dropped, %d not dropped", added, dropped, refused)
			}
			all, changing := regions(t, c.Nodes[1])
			if got := labels(t, c.Nodes[1]); !slices.Equal(got, all) || len(changing) > 0 {
				t.Errorf("regions %v, of which %v change; values %v", all, changing, got)
			}
			for _, n := range c.Nodes {
				verify(t, n, "t")
				verify(t, n, "u")
			}
			out := ddl.Must("select r, count(*) from (select r from t union all select r from u) x group by r order by r")
			for _, line := range strings.Split(out, "\n")[1:] {
				if r, _, ok := strings.Cut(line, " | "); ok && !slices.Contains(all, r) {
					t.Errorf("rows have region %s, and the database has %v", r, all)
				}
			}
		})
	}
}

// jobOf waits for the job of a change of regions.
func jobOf(t testing.TB, n *sessiontest.Node) *job.Record {
	t.Helper()
	for range 1000 {
		all, err := n.Jobs.List(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Type == "region change" && !r.Status.Finished() {
				return r
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("there is no change of regions")
	return nil
}

// While a region is added nothing may be homed there, other changes of the regions wait, those of tables do not; CANCEL JOB takes it back.
func TestRegionChangeCanceled(t *testing.T) {
	for _, drop := range []bool{false, true} {
		online(t, 2, func(t *testing.T, c *sessiontest.Cluster) {
			a, b, old := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
			defer a.Close()
			defer b.Close()
			defer old.Close()
			a.Must(`alter database defaultdb set primary region "eu"; alter database defaultdb add region "us"`)
			a.Must("create table t (id int primary key, r crdb_internal_region); create table other (id int primary key); insert into t values (1, 'us')")
			text, region, was := `alter database defaultdb add region "ap"`, "ap", "eu us"
			if drop {
				a.Must("delete from t")
				text, region = `alter database defaultdb drop region "us"`, "us"
			}
			// A transaction that uses the table's earlier version is in the way of the next one.
			old.Must("begin; select * from t")
			done := make(chan error, 1)
			go func() {
				_, err := a.Exec(text)
				done <- err
			}()
			id := jobOf(t, c.Nodes[0]).ID
			for _, q := range []string{"create table far (id int primary key) locality regional by table in %q", "alter table other set locality regional by table in %q",
				"alter database defaultdb set primary region %q", "alter database defaultdb set secondary region %q"} {
				q = fmt.Sprintf(q, region)
				if strings.HasPrefix(q, "alter database") {
					continue // it waits
				}
				if _, err := b.Exec(q); !sessiontest.ErrIs(err, sqlstate.ObjectNotInPrerequisite) {
					t.Errorf("%s: %v", q, err)
				}
			}
			if _, err := b.Exec(fmt.Sprintf("insert into t values (2, '%s')", region)); !sessiontest.ErrIs(err, sqlstate.InvalidTextRepresentation) {
				t.Errorf("a row gets a region that is not there yet, or not any more: %v", err)
			}
			b.Must("create index on other (id)")
			waits := make(chan error, 1)
			go func() {
				w := c.Nodes[0].Open(t, "root")
				defer w.Close()
				_, err := w.Exec(`alter database defaultdb add region "me"`)
				waits <- err
			}()
			time.Sleep(time.Second)
			b.Must(fmt.Sprint("cancel job ", id))
			old.Must("commit")
			if err := <-done; !sessiontest.ErrIs(err, sqlstate.QueryCanceled) {
				t.Errorf("%s: %v", text, err)
			}
			if err := <-waits; err != nil {
				t.Errorf("the next region: %s", sessiontest.Describe(err))
			}
			all, changing := regions(t, c.Nodes[0])
			if got := strings.Join(all, " "); got != strings.Replace(was, " ", " me ", 1) || len(changing) > 0 || strings.Join(labels(t, c.Nodes[0]), " ") != got {
				t.Errorf("regions %s, changing %v", got, changing)
			}
		})
	}
}

// The node that adds a region dies: another one goes on.
func TestRegionChangeOutlivesItsNode(t *testing.T) {
	online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
		a, old := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer old.Close()
		a.Must(`alter database defaultdb set primary region "eu"; alter database defaultdb add region "us"`)
		a.Must("create table t (id int primary key, r crdb_internal_region)")
		old.Must("begin; select * from t")
		go a.ExecContext(c.Nodes[0].Host.Group.Context(), `alter database defaultdb drop region "us"`)
		jobOf(t, c.Nodes[1])
		c.Nodes[0].Kill()
		time.Sleep(3 * time.Second)
		old.Must("commit")
		time.Sleep(2 * time.Minute)
		if all, changing := regions(t, c.Nodes[2]); strings.Join(all, " ") != "eu" || len(changing) > 0 || strings.Join(labels(t, c.Nodes[2]), " ") != "eu" {
			t.Errorf("regions %v, changing %v", all, changing)
		}
	})
}

// A table becomes REGIONAL BY ROW and ceases to be, while three nodes change its rows: no row is lost or doubled, and keys are unique over all regions at all times.
func TestLocalityOnline(t *testing.T) {
	for seed := range uint64(3) {
		online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
			ddl := c.Nodes[0].Open(t, "root")
			defer ddl.Close()
			ddl.Must(`alter database defaultdb set primary region "eu"; alter database defaultdb add region "us"; alter database defaultdb add region "ap"`)
			ddl.Must(`create table t (id int primary key, name int unique, v int, r crdb_internal_region not null default 'us'); create index tv on t (v);
				insert into t select g, -g, g from generate_series(1001, 1050) g`)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			models := make([]map[int]string, len(c.Nodes))
			for i, n := range c.Nodes {
				model := map[int]string{} // the rows that this session has made, each with name and v
				models[i] = model
				wg.Go(func() {
					s := n.Open(t, "root")
					defer s.Close()
					dice := rand.New(rand.NewPCG(seed, uint64(i)))
					for {
						select {
						case <-stop:
							return
						default:
						}
						id, name, v := i*100+dice.IntN(30), dice.IntN(40), dice.IntN(100)
						_, has := model[id]
						var q string
						then := func() {}
						switch dice.IntN(5) {
						case 0:
							q, then = fmt.Sprintf("delete from t where id = %d", id), func() { delete(model, id) }
						case 1:
							q, then = fmt.Sprintf("insert into t (id, name, v, r) values (%d, %d, %d, 'ap')", id, name, v), func() { model[id] = fmt.Sprintf("%d | %d", name, v) }
							if has {
								then = func() { t.Errorf("seed %d: %s: there were two rows", seed, q) }
							}
						case 2:
							q = fmt.Sprintf("update t set name = %d, v = %d where id = %d", name, v, id)
							if has {
								then = func() { model[id] = fmt.Sprintf("%d | %d", name, v) }
							}
						case 3:
							q = fmt.Sprintf("upsert into t (id, name, v) values (%d, %d, %d)", id, name, v)
							then = func() { model[id] = fmt.Sprintf("%d | %d", name, v) }
						default:
							q = fmt.Sprintf("update t set r = '%s' where id = %d", []string{"ap", "eu", "us"}[dice.IntN(3)], id)
						}
						if _, err := s.Exec(q); err == nil {
							then()
						} else {
							switch session.Outcome(err).Code {
							case sqlstate.UniqueViolation, sqlstate.SerializationFailure:
							default:
								t.Errorf("%s: %s", q, sessiontest.Describe(err))
								return
							}
						}
						time.Sleep(time.Duration(1+dice.IntN(4)) * time.Millisecond)
					}
				})
			}
			for _, to := range []string{"regional by row", "global", "regional by row as r", "regional by row", `regional by table in "ap"`} {
				time.Sleep(30 * time.Millisecond)
				if _, err := ddl.Exec("alter table t set locality " + to); err != nil {
					t.Fatalf("%s: %s", to, sessiontest.Describe(err))
				}
				if got := table(t, c.Nodes[0], "t"); (got.RegionColumn != 0) != strings.HasPrefix(to, "regional by row") || got.Relocation != nil {
					t.Errorf("%s: %+v", to, got.Locality)
				}
			}
			close(stop)
			wg.Wait()
			for _, n := range c.Nodes {
				verify(t, n, "t")
			}
			want := map[string]bool{}
			for _, m := range models {
				for id, row := range m {
					want[fmt.Sprintf("%d | %s", id, row)] = true
				}
			}
			for g := 1001; g <= 1050; g++ {
				want[fmt.Sprintf("%d | %d | %d", g, -g, g)] = true
			}
			rows := strings.Split(ddl.Must("select id, name, v from t order by id"), "\n")
			for _, row := range rows[1 : len(rows)-1] {
				if !want[row] {
					t.Errorf("seed %d: row %s is one too many", seed, row)
				}
				delete(want, row)
			}
			for row := range want {
				t.Errorf("seed %d: row %s is lost", seed, row)
			}
			if out := ddl.Must("select name from t group by name having count(*) > 1"); strings.Count(out, "\n") > 1 {
				t.Errorf("seed %d: names are not unique: %s", seed, out)
			}
		})
	}
}
