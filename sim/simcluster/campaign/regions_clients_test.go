package campaign_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/sql/sqlstate"
)

// homedTables are those of which the localities change.
var homedTables = []string{"kept", "uq", "anomaly_lists0", "anomaly_values", "anomaly_register", "anomaly_bank", "anomaly_unique", "anomaly_skew", "anomaly_counter", "reg"}

// clients starts all clients; they end with k.stop.
func (k *regionsCampaign) clients(t *testing.T, all *sync.WaitGroup) {
	for i := range 16 {
		mine := rand.New(rand.NewPCG(k.seed, uint64(1000+i)))
		step, err := k.work.Worker(t.Context(), mine)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { anomalyClient(k.c, mine, step, k.stop) })
	}
	start := func(n, pause int, limit time.Duration, f func(*client)) {
		for range n {
			id := int(k.ids.Add(1))
			cl := &client{k: k.campaign, id: id, dice: rand.New(rand.NewPCG(k.seed, uint64(id))), limit: limit, explain: k.expected}
			all.Go(func() {
				defer cl.close()
				for {
					select {
					case <-k.stop:
						return
					case <-time.After(time.Duration(20+cl.dice.IntN(pause)) * time.Millisecond):
					}
					if cl.dice.IntN(8) == 0 {
						cl.close() // and goes to another gateway
					}
					f(cl)
				}
			})
		}
	}
	start(3, 100, 10*time.Second, k.auditKept)
	start(4, 100, 10*time.Second, k.rehome)
	start(5, 100, 10*time.Second, (*client).uniqueInsert)
	start(3, 800, 60*time.Second, k.alter)
	start(1, 1500, 30*time.Second, k.fence)
	start(3, 100, 10*time.Second, k.comparePlans)
	start(3, 50, 10*time.Second, (*client).relay)
	start(1, 50, 10*time.Second, (*client).register)
}

// expected knows the errors of statements about rows while regions change.
func (k *regionsCampaign) expected(pg *pgconn.PgError) (history.Outcome, bool) {
	switch sqlstate.Code(pg.Code) {
	case sqlstate.UndefinedColumn, sqlstate.InvalidTextRepresentation, sqlstate.ObjectNotInPrerequisite:
		return history.Failed, true
	}
	return history.OK, false
}

// auditKept reads table kept in one of several ways, also in the past: it has the same rows at every moment.
func (k *regionsCampaign) auditKept(cl *client) {
	var n, sum, text, twice int
	const what = "count(*), sum(v), sum(length(note)), count(*) - count(DISTINCT id)"
	q := []string{
		"SELECT " + what + " FROM kept",
		"SELECT " + what + " FROM kept AS OF SYSTEM TIME follower_read_timestamp()",
		"SELECT " + what + " FROM kept AS OF SYSTEM TIME with_max_staleness('20s')",
		"SELECT count(*), sum(kept.v), sum(length(kept.note)), count(*) - count(DISTINCT kept.id) FROM kept JOIN kept AS other USING (code)",
		fmt.Sprintf("SELECT %s FROM kept WHERE id BETWEEN 1 AND %d", what, keptRows),
		fmt.Sprintf("SELECT %s FROM kept WHERE code IN (SELECT 'code' || g FROM generate_series(1, %d) AS g)", what, keptRows),
	}[cl.dice.IntN(6)]
	how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, q).Scan(&n, &sum, &text, &twice)
	})
	if how == history.OK && (n != keptRows || sum != keptRows*(keptRows+1)*(2*keptRows+1)/6 || text != keptRows*(keptRows+1)/2 || twice != 0) {
		k.problem("kept: %d rows, of which %d are there twice, sum %d, text %d by %s, seen from %s", n, twice, sum, text, q, note)
	}
	if id := 1 + cl.dice.IntN(keptRows); cl.dice.IntN(2) == 0 {
		var v int
		q := []string{fmt.Sprintf("SELECT v FROM kept WHERE id = %d", id), fmt.Sprintf("SELECT v FROM kept WHERE code = 'code%d'", id)}[cl.dice.IntN(2)]
		how, note := cl.do("read of a row", func(ctx context.Context, conn *pgx.Conn) error {
			err := conn.QueryRow(ctx, q).Scan(&v)
			if err == pgx.ErrNoRows {
				k.problem("%s finds no row, seen from %s", q, k.c.Machines[cl.at].Name)
				return nil
			}
			return err
		})
		if how == history.OK && v != id*id {
			k.problem("%s finds %d, seen from %s", q, v, note)
		}
	}
}

// rehome moves rows to other regions, in ways that leave them equal otherwise.
func (k *regionsCampaign) rehome(cl *client) {
	table, region := k.homed(cl), k.member(cl)
	where := fmt.Sprintf("id = %d", 1+cl.dice.IntN(keptRows))
	if cl.dice.IntN(4) == 0 {
		where = fmt.Sprintf("id %% 5 = %d", cl.dice.IntN(5))
	}
	texts := []string{fmt.Sprintf("UPDATE %s SET crdb_region = '%s' WHERE %s", table, region, where)}
	if table == "kept" && cl.dice.IntN(3) == 0 {
		id := 1 + cl.dice.IntN(keptRows)
		texts = []string{fmt.Sprintf("DELETE FROM kept WHERE id = %d", id),
			fmt.Sprintf("INSERT INTO kept (id, v, code, note, crdb_region) VALUES (%d, %d, 'code%d', repeat('x', %[1]d), '%[4]s')", id, id*id, id, region)}
	}
	cl.do("rehome", func(ctx context.Context, conn *pgx.Conn) error {
		if len(texts) == 1 {
			_, err := conn.Exec(ctx, texts[0])
			return err
		}
		return inTxn(ctx, conn, func() error {
			for _, q := range texts {
				if _, err := conn.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// member is a region that is likely to be one of the database.
func (k *regionsCampaign) member(cl *client) string {
	k.ddl.Lock()
	defer k.ddl.Unlock()
	for range 8 {
		if r := k.regions[cl.dice.IntN(len(k.regions))]; k.members[r] {
			return r
		}
	}
	return k.regions[cl.dice.IntN(len(k.regions))]
}

// homed is a table that is likely to be REGIONAL BY ROW: as a rule one that was a moment ago.
func (k *regionsCampaign) homed(cl *client) string {
	k.ddl.Lock()
	defer k.ddl.Unlock()
	var those []string
	for _, t := range homedTables {
		if k.byRow[t] {
			those = append(those, t)
		}
	}
	switch {
	case len(those) == 0 || cl.dice.IntN(12) == 0:
		return homedTables[cl.dice.IntN(len(homedTables))]
	case k.byRow["kept"] && cl.dice.IntN(3) == 0:
		return "kept"
	}
	return those[cl.dice.IntN(len(those))]
}

// alter runs a statement of regions.
func (k *regionsCampaign) alter(cl *client) {
	region := func() string { return k.regions[cl.dice.IntN(len(k.regions))] }
	table := homedTables[cl.dice.IntN(len(homedTables))]
	const db = "ALTER DATABASE defaultdb "
	texts := []string{}
	one := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	switch cl.dice.IntN(16) {
	case 0, 1:
		one("ALTER TABLE %s SET LOCALITY REGIONAL BY ROW", table)
	case 2, 3:
		one("ALTER TABLE %s SET LOCALITY GLOBAL", table)
	case 4:
		one(`ALTER TABLE %s SET LOCALITY REGIONAL BY TABLE IN "%s"`, table, region())
	case 5:
		one("ALTER TABLE %s SET LOCALITY REGIONAL BY TABLE IN PRIMARY REGION", table)
	case 6:
		one(db + "SURVIVE REGION FAILURE")
	case 7:
		one(db + "SURVIVE ZONE FAILURE")
	case 8, 9:
		one(db+`ADD REGION "%s"`, region())
	case 10, 11:
		r := region()
		if cl.dice.IntN(2) == 0 { // without rows it goes
			k.ddl.Lock()
			those := maps.Clone(k.byRow)
			k.ddl.Unlock()
			for _, x := range homedTables {
				if !those[x] {
					continue
				}
				one(`UPDATE %s SET crdb_region = '%s' WHERE crdb_region = '%s'`, x, k.regions[0], r)
			}
		}
		one(db+`DROP REGION "%s"`, r)
	case 12:
		one(db+`SET PRIMARY REGION "%s"`, k.regions[cl.dice.IntN(3)])
	case 13:
		one(db+"PLACEMENT %s", []string{"RESTRICTED", "DEFAULT"}[cl.dice.IntN(2)])
	case 14:
		a, b := region(), region()
		one(db+`ADD SUPER REGION "s%d" VALUES "%s", "%s"`, cl.dice.IntN(2), a, b)
		if cl.dice.IntN(2) == 0 {
			texts = []string{fmt.Sprintf(db+`DROP SUPER REGION "s%d"`, cl.dice.IntN(2))}
		}
	case 15:
		one(db + "PLACEMENT RESTRICTED")
	}
	k.change(cl, texts)
}

// fence has the rows of a table of another database leave a region.
func (k *regionsCampaign) fence(cl *client) {
	k.change(cl, []string{fmt.Sprintf(`ALTER TABLE fenced CONFIGURE ZONE USING constraints = '[-region=%s]'`, k.regions[cl.dice.IntN(len(k.regions))])})
}

// change runs statements of regions.
func (k *regionsCampaign) change(cl *client, texts []string) {
	for _, text := range texts {
		s := &regionStatement{text: text, call: time.Now()}
		if cl.connect() != nil {
			continue
		}
		if strings.HasPrefix(text, "ALTER") {
			k.ddl.Lock()
			k.statements = append(k.statements, s)
			k.ddl.Unlock()
		}
		cl.explain = regionErrors
		how, note := cl.do("statement of regions", func(ctx context.Context, conn *pgx.Conn) error {
			if strings.HasPrefix(text, "ALTER TABLE fenced") {
				plain, err := k.c.Connect(ctx, cl.at, "plain")
				if err != nil {
					return err
				}
				defer plain.Close(ctx)
				conn = plain
			}
			_, err := conn.Exec(ctx, text)
			return err
		})
		k.ddl.Lock()
		s.answer, s.note, s.how = time.Now(), note, map[history.Outcome]string{history.OK: "ok", history.Failed: "refused", history.Unknown: "unknown"}[how]
		switch words := strings.Fields(text); {
		case how != history.OK:
		case words[1] == "TABLE" && words[4] == "LOCALITY":
			k.byRow[words[2]] = strings.HasSuffix(text, "BY ROW")
		case words[4] == "REGION" && (words[3] == "ADD" || words[3] == "DROP"):
			k.members[strings.Trim(words[5], `"`)] = words[3] == "ADD"
		}
		k.ddl.Unlock()
		k.say("%s: %s %s", text, s.how, note)
	}
}

// regionErrors are the errors of statements of regions that other statements explain.
func regionErrors(pg *pgconn.PgError) (history.Outcome, bool) {
	refused := []sqlstate.Code{sqlstate.InvalidName, sqlstate.InvalidDatabaseDefinition, sqlstate.DuplicateObject, sqlstate.UndefinedObject, sqlstate.DependentObjectsExist,
		sqlstate.ObjectNotInPrerequisite, sqlstate.InvalidTextRepresentation, sqlstate.UndefinedColumn}
	return history.Failed, slices.Contains(refused, sqlstate.Code(pg.Code))
}

// comparePlans runs a random query with and without the rewrites by locality, and in a form that no index serves, in one transaction: the rows are the same.
func (k *regionsCampaign) comparePlans(cl *client) {
	id := func() int { return cl.dice.IntN(keptRows*5/4) + 1 } // some do not exist
	list := func(format string) string {
		var out []string
		for range 1 + cl.dice.IntN(6) {
			out = append(out, fmt.Sprintf(format, id()))
		}
		return strings.Join(out, ", ")
	}
	region := k.regions[cl.dice.IntN(len(k.regions))]
	// The second query of each pair hides the columns from the indexes.
	queries := [][2]string{
		{"SELECT id, v, code FROM kept WHERE id = %[1]d", "SELECT id, v, code FROM kept WHERE id + 0 = %[1]d"},
		{"SELECT id, v, note FROM kept WHERE code = 'code%[1]d'", "SELECT id, v, note FROM kept WHERE code || '' = 'code%[1]d'"},
		{"SELECT id, v FROM kept WHERE id IN (%[2]s)", "SELECT id, v FROM kept WHERE id + 0 IN (%[2]s)"},
		{"SELECT id, code FROM kept WHERE code IN (%[3]s)", "SELECT id, code FROM kept WHERE code || '' IN (%[3]s)"},
		{"SELECT id FROM kept WHERE id IN (%[2]s) LIMIT 100", "SELECT id FROM kept WHERE id + 0 IN (%[2]s) LIMIT 100"},
		{"SELECT count(*) FROM (SELECT id FROM kept WHERE v > %[1]d LIMIT 7) AS x", "SELECT count(*) FROM (SELECT id FROM kept WHERE v + 0 > %[1]d LIMIT 7) AS x"},
		{"SELECT a.id, b.code FROM kept AS a JOIN kept AS b ON b.id = a.v %% 50 WHERE a.id IN (%[2]s)",
			"SELECT a.id, b.code FROM kept AS a JOIN kept AS b ON b.id + 0 = a.v %% 50 WHERE a.id + 0 IN (%[2]s)"},
		{"SELECT g FROM generate_series(1, 50) AS g WHERE NOT EXISTS (SELECT 1 FROM kept WHERE kept.id = g)",
			"SELECT g FROM generate_series(1, 50) AS g WHERE NOT EXISTS (SELECT 1 FROM kept WHERE kept.id + 0 = g)"},
		{"SELECT g FROM generate_series(1, 50) AS g WHERE EXISTS (SELECT 1 FROM kept WHERE kept.code = 'code' || g)",
			"SELECT g FROM generate_series(1, 50) AS g WHERE EXISTS (SELECT 1 FROM kept WHERE kept.code || '' = 'code' || g)"},
		{"SELECT id, name FROM uq WHERE name = (SELECT max(name) FROM uq)", "SELECT id, name FROM uq WHERE name || '' = (SELECT max(name || '') FROM uq)"},
		{"SELECT id FROM kept WHERE crdb_region = '%[4]s' AND id IN (%[2]s)", "SELECT id FROM kept WHERE crdb_region::text = '%[4]s' AND id + 0 IN (%[2]s)"},
		{"SELECT a.id, u.name FROM kept AS a LEFT JOIN uq AS u ON u.id = a.id WHERE a.code IN (%[3]s)",
			"SELECT a.id, u.name FROM kept AS a LEFT JOIN uq AS u ON u.id + 0 = a.id WHERE a.code || '' IN (%[3]s)"},
	}[cl.dice.IntN(12)]
	args := []any{id(), list("%d"), list("'code%d'"), region}
	var found [4][]string
	var texts [4]string
	how, note := cl.do("comparison", func(ctx context.Context, conn *pgx.Conn) error {
		return inTxn(ctx, conn, func() error {
			for i := range 4 {
				if i%2 == 0 {
					if _, err := conn.Exec(ctx, "SET LOCAL locality_optimized_partitioned_index_scan = "+[]string{"on", "off"}[i/2]); err != nil {
						return err
					}
				}
				texts[i] = fmt.Sprintf(queries[i%2]+"%[5]s", append(args, "")...)
				rows, err := conn.Query(ctx, texts[i], pgx.QueryExecModeSimpleProtocol)
				if err != nil {
					return err
				}
				if found[i], err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
					v, err := r.Values()
					return fmt.Sprint(v), err
				}); err != nil {
					return err
				}
				slices.Sort(found[i])
			}
			return nil
		})
	})
	if how != history.OK {
		return
	}
	for i := range found {
		if !slices.Equal(found[i], found[3]) {
			k.problem("%s finds %v, and %s finds %v, seen from %s", texts[i], found[i], texts[3], found[3], note)
		}
	}
}

// verifyRegions compares the rows of tables kept and uq with what was acknowledged.
func (k *regionsCampaign) verifyRegions(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	from := k.c.Machines[i].Name
	rows := func(q string) (map[int64]string, error) {
		found, err := conn.Query(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		defer found.Close()
		out := map[int64]string{}
		for found.Next() {
			var id int64
			var s string
			if err := found.Scan(&id, &s); err != nil {
				return nil, err
			}
			if _, twice := out[id]; twice {
				k.problem("%s finds row %d twice, seen from %s", q, id, from)
			}
			out[id] = s
		}
		return out, found.Err()
	}
	kept, err := rows("SELECT id, v::text || code || note FROM kept")
	if err != nil {
		return err
	}
	for id := int64(1); id <= keptRows; id++ {
		if want := fmt.Sprintf("%dcode%d%s", id*id, id, strings.Repeat("x", int(id))); kept[id] != want {
			k.problem("kept: row %d is %q, want %q, seen from %s", id, kept[id], want, from)
		}
	}
	if len(kept) != keptRows {
		k.problem("kept: %d rows, seen from %s", len(kept), from)
	}
	unique, err := rows("SELECT id, name FROM uq@uq_pkey")
	if err != nil {
		return err
	}
	byName, err := rows("SELECT id, name FROM uq@uq_name_key")
	if err != nil {
		return err
	}
	names := map[string]int64{}
	for id, name := range unique {
		if other, taken := names[name]; taken {
			k.problem("%s is in rows %d and %d, seen from %s", name, id, other, from)
		}
		if names[name] = id; byName[id] != name {
			k.problem("row %d is %q in the index and %q in the table, seen from %s", id, byName[id], name, from)
		}
	}
	if len(byName) != len(unique) {
		k.problem("uq has %d rows, its index %d, seen from %s", len(unique), len(byName), from)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, u := range k.unique {
		if _, there := unique[id]; (u.how == history.OK && !there || u.how == history.Failed && there) && len(k.problems) < 20 {
			k.problems = append(k.problems, fmt.Sprintf("%s of row %d (outcome %d, %s) is there: %v, seen from %s", u.name, id, u.how, u.note, there, from))
		}
	}
	return nil
}
