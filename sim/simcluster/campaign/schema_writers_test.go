package campaign_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
)

// schemaRow has the values of a row of w; -1 is NULL.
type schemaRow struct{ u, b, x, c, nn int64 }

func (r schemaRow) String() string {
	return fmt.Sprintf("u=%d b=%d x=%d c=%d nn=%d s=s%d", r.u, r.b, r.x, r.c, r.nn, r.b%7)
}

func orNull(v int64) any {
	if v < 0 {
		return nil
	}
	return v
}

// note records the outcome of a transaction that changed rows: by table and id, each row before and after.
func (k *schemaCampaign) note(how history.Outcome, changes map[string][2]string) {
	k.model.mu.Lock()
	defer k.model.mu.Unlock()
	switch how {
	case history.OK:
		for key, c := range changes {
			k.model.sure[key] = c[1]
		}
	case history.Unknown:
		for key := range changes {
			delete(k.model.sure, key)
		}
		k.model.maybe = append(k.model.maybe, changes)
	}
}

// schemaWriter writes rows of its own, so that it knows the expected state of each.
type schemaWriter struct {
	*client
	all      *schemaCampaign
	live     map[int64]schemaRow
	children map[int64]int64 // their parents

	stmts   []schemaStmt
	changes map[string][2]string
	after   []func() // what to do with live and children when it is committed
	lost    []func() // when its outcome is unknown
}

type schemaStmt struct {
	q    string
	args []any
	rows int64
}

// violated are errors that writers of w may get because of a constraint that is being added, or that some rows violate on
// purpose.
func violated(pg *pgconn.PgError) (history.Outcome, bool) {
	switch pg.Code {
	case "23505": // without a name, it is on its way out
		return history.Failed, slices.Contains([]string{"u_x", "u_d", "w_x3_key", ""}, pg.ConstraintName)
	case "23514":
		return history.Failed, slices.Contains([]string{"ck_c", "ck_bad", "w_nn_not_null", "w_x3_check"}, pg.ConstraintName)
	case "23502":
		return history.Failed, pg.ColumnName == "nn"
	case "23503":
		return history.Failed, slices.Contains([]string{"fk", "f_x6_fkey"}, pg.ConstraintName)
	}
	return 0, false
}

func (w *schemaWriter) explained(pg *pgconn.PgError) (history.Outcome, bool) {
	switch pg.Code {
	case "42703":
		return history.Failed, strings.Contains(pg.Message, "\"x1\"") || strings.Contains(pg.Message, "\"x2\"")
	}
	return violated(pg)
}

func (w *schemaWriter) add(rows int64, q string, args ...any) {
	w.stmts = append(w.stmts, schemaStmt{q, args, rows})
}

func (w *schemaWriter) change(key, before, after string) {
	c, ok := w.changes[key]
	if !ok {
		c[0] = before
	}
	c[1] = after
	w.changes[key] = c
}

func wKey(id int64) string { return fmt.Sprintf("w %d", id) }
func fKey(id int64) string { return fmt.Sprintf("f %d", id) }

// value makes up a row.
func (w *schemaWriter) value(id int64) schemaRow {
	d := w.dice
	r := schemaRow{u: 2*id + d.Int64N(2), b: d.Int64N(900), x: 1_000_000 + id, c: d.Int64N(10), nn: d.Int64N(50)}
	switch d.IntN(40) {
	case 0:
		r.x = d.Int64N(8) // others want it too
	case 1:
		r.c = 1000 // ck_c forbids it
	case 2:
		r.nn = -1
	case 3:
		r.b = 900 + d.Int64N(100) // ck_bad would forbid it
	case 4:
		r.x = -1
	}
	return r
}

const insertW = "INSERT INTO w (id, u, b, x, d, c, nn, s) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"

func rowArgs(id int64, r schemaRow) []any {
	return []any{id, r.u, r.b, orNull(r.x), id % 7, r.c, orNull(r.nn), fmt.Sprintf("s%d", r.b%7)}
}

func (w *schemaWriter) insert() int64 {
	id := w.all.ids.Add(1)
	r := w.value(id)
	w.add(1, insertW, rowArgs(id, r)...)
	w.change(wKey(id), "", r.String())
	w.after = append(w.after, func() { w.live[id] = r })
	return id
}

func (w *schemaWriter) some() (int64, bool) {
	// In order, so that the dice decide.
	ids := make([]int64, 0, len(w.live))
	for id := range w.live {
		if _, used := w.changes[wKey(id)]; !used {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, false
	}
	slices.Sort(ids)
	return ids[w.dice.IntN(len(ids))], true
}

func (w *schemaWriter) update() {
	id, ok := w.some()
	if !ok {
		w.insert()
		return
	}
	old, r := w.live[id], w.value(id)
	switch w.dice.IntN(5) {
	case 0: // all of it, or nothing: the row is there
		w.add(1, insertW+" ON CONFLICT (id) DO UPDATE SET u = excluded.u, b = excluded.b, x = excluded.x, c = excluded.c, nn = excluded.nn, s = excluded.s",
			rowArgs(id, r)...)
	case 1:
		w.add(1, "UPSERT INTO w (id, u, b, x, d, c, nn, s) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", rowArgs(id, r)...)
	case 2:
		r = schemaRow{old.u, r.b, old.x, old.c, old.nn}
		w.add(1, "UPDATE w SET b = $2, s = $3 WHERE id = $1", id, r.b, fmt.Sprintf("s%d", r.b%7))
	case 3: // found by another column, which may have an index
		r = schemaRow{r.u, old.b, old.x, r.c, old.nn}
		w.add(1, "UPDATE w SET u = $2, c = $3 WHERE u = $1", old.u, r.u, r.c)
	case 4: // a column that may not be there: no other is changed
		r = old
		w.add(1, fmt.Sprintf("UPDATE w SET x%d = %d WHERE id = %d", 1+w.dice.IntN(2), 50, id))
	}
	w.change(wKey(id), old.String(), r.String())
	w.after = append(w.after, func() { w.live[id] = r })
	w.lost = append(w.lost, func() { delete(w.live, id) })
}

func (w *schemaWriter) delete() {
	id, ok := w.some()
	if !ok || len(w.live) < 5 {
		w.insert()
		return
	}
	old := w.live[id]
	if w.dice.IntN(3) == 0 {
		w.add(1, "DELETE FROM w WHERE u = $1", old.u)
	} else {
		w.add(1, "DELETE FROM w WHERE id = $1", id)
	}
	w.change(wKey(id), old.String(), "")
	gone := func() { delete(w.live, id) }
	w.after, w.lost = append(w.after, gone), append(w.lost, gone)
}

// child adds or removes a child. Its parent may go before it, if there is no foreign key.
func (w *schemaWriter) child() {
	ids := make([]int64, 0, len(w.children))
	for id := range w.children {
		if _, used := w.changes[fKey(id)]; !used {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > 6 || len(ids) > 0 && w.dice.IntN(3) == 0 {
		id := ids[w.dice.IntN(len(ids))]
		for _, o := range ids { // those without a parent first
			if _, ok := w.live[w.children[o]]; !ok {
				id = o
			}
		}
		w.add(1, "DELETE FROM f WHERE id = $1", id)
		w.change(fKey(id), fmt.Sprint(w.children[id]), "")
		gone := func() { delete(w.children, id) }
		w.after, w.lost = append(w.after, gone), append(w.lost, gone)
		return
	}
	parent, ok := w.some()
	if !ok || w.dice.IntN(3) == 0 {
		parent = w.insert()
	}
	id := w.all.ids.Add(1)
	w.add(1, "INSERT INTO f VALUES ($1, $2)", id, parent)
	w.change(fKey(id), "", fmt.Sprint(parent))
	w.after = append(w.after, func() { w.children[id] = parent })
}

func (w *schemaWriter) step() {
	w.stmts, w.changes, w.after, w.lost = nil, map[string][2]string{}, nil, nil
	one := func() {
		switch n := w.dice.IntN(10); {
		case n < 3:
			w.insert()
		case n < 7:
			w.update()
		case n < 8:
			w.delete()
		default:
			w.child()
		}
	}
	what := "statement"
	if w.dice.IntN(5) == 0 { // two rows in one statement
		a, b := w.all.ids.Add(1), w.all.ids.Add(1)
		ra, rb := w.value(a), w.value(b)
		w.add(2, insertW+", ($9, $10, $11, $12, $13, $14, $15, $16)", append(rowArgs(a, ra), rowArgs(b, rb)...)...)
		w.change(wKey(a), "", ra.String())
		w.change(wKey(b), "", rb.String())
		w.after = append(w.after, func() { w.live[a], w.live[b] = ra, rb })
	} else {
		one()
	}
	explicit := len(w.stmts) > 1
	if w.dice.IntN(3) == 0 {
		explicit = true
		for range w.dice.IntN(3) {
			one()
		}
	}
	rollback := explicit && w.dice.IntN(8) == 0
	think := time.Duration(0)
	if explicit && w.dice.IntN(6) == 0 {
		think = time.Duration(w.dice.IntN(3000)) * time.Millisecond
	}
	var wrong string
	how, note := w.do(what, func(ctx context.Context, conn *pgx.Conn) error {
		wrong = ""
		all := func() error {
			for i, s := range w.stmts {
				if i > 0 {
					time.Sleep(think)
				}
				tag, err := conn.Exec(ctx, s.q, s.args...)
				if err != nil {
					return err
				}
				if tag.RowsAffected() != s.rows {
					wrong = fmt.Sprintf("%s %v changed %d rows, want %d", s.q, s.args, tag.RowsAffected(), s.rows)
				}
			}
			return nil
		}
		if !explicit {
			return all()
		}
		if rollback {
			if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
				return err
			}
			if err := all(); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, "ROLLBACK")
			return err
		}
		return inTxn(ctx, conn, all)
	})
	if how == history.OK && wrong != "" {
		w.k.problem("at %s: %s", note, wrong)
	}
	if rollback {
		return // whatever was answered
	}
	w.all.note(how, w.changes)
	switch how {
	case history.OK:
		for _, f := range w.after {
			f()
		}
	case history.Unknown:
		for _, f := range w.lost {
			f()
		}
	}
}

// hotWriter changes rows that all others change as well.
type hotWriter struct {
	*client
	all *schemaCampaign
}

func (w *hotWriter) step() {
	id := w.dice.IntN(hotRows)
	v := w.dice.IntN(900)
	w.explain = violated
	how, _ := w.do("hot", func(ctx context.Context, conn *pgx.Conn) error {
		var err error
		switch w.dice.IntN(3) {
		case 0:
			_, err = conn.Exec(ctx, "UPDATE w SET n = n + 1, b = $2 WHERE id = $1", id, v)
		case 1:
			_, err = conn.Exec(ctx, "INSERT INTO w (id, n, b) VALUES ($1, 0, $2) ON CONFLICT (id) DO UPDATE SET n = w.n + 1, b = excluded.b", id, v)
		default:
			err = inTxn(ctx, conn, func() error {
				var n int
				if err := conn.QueryRow(ctx, "SELECT n FROM w WHERE id = $1", id).Scan(&n); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "UPDATE w SET n = $2, s = $3 WHERE id = $1", id, n+1, fmt.Sprint("s", v))
				return err
			})
		}
		return err
	})
	m := &w.all.model
	m.mu.Lock()
	defer m.mu.Unlock()
	switch how {
	case history.OK:
		m.hot[id].sure++
	case history.Unknown:
		m.hot[id].maybe++
	}
}

// renamedWriter uses names that come and go.
type renamedWriter struct {
	*client
	all *schemaCampaign
}

func (w *renamedWriter) step() {
	w.explain = func(pg *pgconn.PgError) (history.Outcome, bool) {
		return history.Failed, pg.Code == "42P01" || pg.Code == "42703"
	}
	table, column := []string{"r", "r2"}[w.dice.IntN(2)], []string{"q", "q2"}[w.dice.IntN(2)]
	id, v := w.all.ids.Add(1), w.dice.IntN(100)
	how, _ := w.do("renamed", func(ctx context.Context, conn *pgx.Conn) error {
		if w.dice.IntN(2) == 0 {
			_, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (id, %s) VALUES (%d, %d)", table, column, id, v))
			return err
		}
		return inTxn(ctx, conn, func() error {
			if _, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", table, id)); err != nil {
				return err
			}
			tag, err := conn.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s = %d WHERE id = %d", table, column, v, id))
			if err == nil && tag.RowsAffected() != 1 {
				return fmt.Errorf("the row that was just inserted was updated %d times", tag.RowsAffected())
			}
			return err
		})
	})
	w.all.note(how, map[string][2]string{fmt.Sprintf("r %d", id): {"", fmt.Sprint(v)}})
}

// emptiedWriter inserts into a table that is truncated, and records the number of truncations that it saw.
type emptiedWriter struct{ *client }

func (w *emptiedWriter) step() {
	id := w.k.ids.Add(1)
	texts := []string{fmt.Sprintf("INSERT INTO tr VALUES (%d, %d)", id, id%5), fmt.Sprintf("INSERT INTO u SELECT %d, n FROM e", id)}
	if w.dice.IntN(2) == 0 {
		slices.Reverse(texts)
	}
	w.do("emptied", func(ctx context.Context, conn *pgx.Conn) error {
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

// An invariant that holds at all times. A column that is not there has nothing wrong in it.
var schemaInvariants = []string{
	"SELECT count(*) FROM w WHERE x1 IS NULL OR x1 NOT IN (5, 50)",
	"SELECT count(*) FROM w WHERE x2 IS NULL OR x2 NOT IN (6, 50)",
	fmt.Sprintf("SELECT count(*) FROM w WHERE id < %d AND x0 IS DISTINCT FROM 7", hotRows),
	"SELECT count(*) FROM u FULL JOIN tr USING (id) WHERE (u.n = (SELECT n FROM e)) <> (tr.id IS NOT NULL)",
	"SELECT count(*) FROM (SELECT b FROM w GROUP BY b HAVING count(*) <> (SELECT count(*) FROM w v WHERE v.b = w.b)) t",
	"SELECT (SELECT count(*) FROM w WHERE u > -10 AND u IS NOT NULL) - (SELECT count(*) FROM w WHERE id + 0 >= 0)",
	"SELECT (SELECT count(*) FROM w WHERE s >= 's3' AND s < 's4') - (SELECT count(*) FROM w WHERE s || '' >= 's3' AND s || '' < 's4')",
}

// schemaReader checks the invariants that hold at any moment.
type schemaReader struct {
	*client
	all *schemaCampaign
}

func (r *schemaReader) step() {
	if r.dice.IntN(3) > 0 {
		i := r.dice.IntN(r.k.c.Len())
		ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
		defer cancel()
		n, err := r.all.checkIndexes(ctx, i)
		if err == nil {
			r.k.count(&r.k.done, "indexes compared")
			if n > 0 {
				r.k.count(&r.k.done, "of them secondary")
			}
		}
		return
	}
	r.explain = func(pg *pgconn.PgError) (history.Outcome, bool) { return history.Failed, pg.Code == "42703" }
	q := schemaInvariants[r.dice.IntN(len(schemaInvariants))]
	var wrong int
	how, note := r.do("invariant", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, q).Scan(&wrong)
	})
	if how == history.OK && wrong != 0 {
		r.k.problem("%s: %d, seen from %s", q, wrong, note)
	}
}
