package schemachange

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/parse"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// place finds the database and schema of a qualified name.
func (c *change) place(n bind.Name) (*catalog.Database, *catalog.Schema, error) {
	database := n.Database
	if database == "" {
		database = c.Info.Database
	}
	db, err := c.view.Database(c.ctx, database)
	if err != nil {
		return nil, nil, err
	}
	if db == nil {
		return nil, nil, sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", database)
	}
	schema := n.Schema
	if schema == "" {
		schema = "public"
	}
	s, err := c.view.Schema(c.ctx, database, schema)
	if err != nil {
		return nil, nil, err
	}
	if s == nil {
		return nil, nil, sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", schema)
	}
	if s.ID < catalog.FirstUserID && (s.Name == "pg_catalog" || s.Name == "information_schema" || s.Name == "meridian_internal") {
		return nil, nil, sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for schema %s", s.Name).
			WithDetail("System catalog modifications are currently disallowed.")
	}
	return db, s, nil
}

// super reports whether the user may do everything.
func (c *change) super() bool { return c.view.Access().Superuser(c.Info.User) }

// must refuses a user who lacks a right.
func (c *change) must(id catalog.ID, p catalog.Privileges) error {
	return c.view.Access().Check(c.Info.User, id, p)
}

// mustOwn refuses a user who does not own an object.
func (c *change) mustOwn(id catalog.ID) error { return c.view.Access().CheckOwner(c.Info.User, id) }

// mustOwnIndex is mustOwn of an index's table, in the words of PostgreSQL.
func (c *change) mustOwnIndex(t *catalog.Table, name string, drop bool) error {
	check := c.mustOwn(t.ID)
	if drop {
		check = c.mustOwnToDrop(t)
	}
	if check != nil {
		return denied("must be owner of index %s", name)
	}
	return nil
}

// free refuses a name that is taken in the schema.
func (c *change) free(db *catalog.Database, s *catalog.Schema, name string) error {
	t, err := c.view.NameTaken(db.ID, s.ID, name)
	if err != nil {
		return err
	}
	if t != nil {
		return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists", name)
	}
	return nil
}

// oids hands out identities and keeps the first error.
type oids struct {
	c         *change
	temporary bool
	err       error
}

func (o *oids) next() catalog.ID {
	id, err := o.c.newID(o.temporary)
	if err != nil && o.err == nil {
		o.err = err
	}
	return id
}

// hook makes the transaction's commit write the jobs that its changes need.
func (c *change) hook() {
	c.Catalog.BeforeFlush(func(ctx context.Context) error { return c.plan(ctx, c.Txn, c.Catalog) })
}

func (c *change) createTable(s *bind.CreateTable) (string, error) {
	tag := "CREATE TABLE"
	switch {
	case s.Materialized:
		tag = "CREATE MATERIALIZED VIEW"
	case s.AsQuery:
		tag = "CREATE TABLE AS"
	}
	c.notices(s.Notices)
	if s.Exists {
		return tag, nil
	}
	db, sc, err := c.placeNew(s.Name, s.Temporary)
	if err != nil {
		return "", err
	}
	if err := c.free(db, sc, s.Name.Name); err != nil {
		return "", err
	}
	if err := c.noSuchType(sc.Name, s.Name.Name); err != nil {
		return "", err
	}
	c.hook()
	if p := s.Protocol; p != 0 && c.IgnoreProtocol {
		led := *s
		led.Protocol, led.Ballots, led.Gamma = 0, catalog.UnsaidBallots, 0
		set := fmt.Sprintf("%s = '%s'", catalog.ProtocolOption, p)
		if s.Ballots != catalog.UnsaidBallots {
			set += fmt.Sprintf(", %s = '%s'", catalog.BallotsOption, s.Ballots)
		}
		if s.Gamma != 0 {
			set += fmt.Sprintf(", %s = %d", catalog.GammaOption, s.Gamma)
		}
		s = &led
		c.notice(&sqlstate.Error{Code: sqlstate.SuccessfulCompletion, Message: fmt.Sprintf("commit protocol \"%s\" of table \"%s\" is ignored", p, s.Name.Name),
			Hint: fmt.Sprintf("When its rows and keys are there: ALTER TABLE %s.%s SET (%s).", quoteIdent(sc.Name), quoteIdent(s.Name.Name), set)})
	}
	o := &oids{c: c, temporary: s.Temporary}
	id := o.next()
	t := s.Descriptor(id, db.ID, sc.ID, c.Info.User, o.next)
	if o.err != nil {
		return "", o.err
	}
	if err := c.mayUseColumns(t); err != nil {
		return "", err
	}
	if s.InferRegion != "" {
		if err := inferRegion(t, s.InferRegion); err != nil {
			return "", err
		}
	}
	t.OnCommit = s.OnCommit
	if s.Materialized && db.MultiRegion() {
		t.Locality = catalog.Locality{Kind: catalog.Global} // every region reads it, and only REFRESH writes it
	}
	for i := range s.Columns {
		if seq := s.Columns[i].Sequence; seq != nil {
			col := t.ColumnByName(s.Columns[i].Name)
			if err := c.ownSequence(t, col, seq); err != nil {
				return "", err
			}
		}
	}
	if err := fitsBallots(t); err != nil {
		return "", err
	}
	if err := c.fitsProtocol(t, db); err != nil {
		return "", err
	}
	inheritExternal(t, db)
	t.ShortChars = c.shortens(t)
	for i := range t.Indexes {
		c.keepsClasses(&t.Indexes[i])
	}
	if err := c.interleave(t, s); err != nil {
		return "", err
	}
	c.Catalog.New(lease.Descriptor{Table: t})
	if err := c.reserve(t); err != nil {
		return "", err
	}
	if s.Materialized {
		c.uses(t)
	}
	for i := range t.Foreign {
		// Rows may be inserted before other transactions know that they must not delete the rows referred to. Readers of the other
		// table need not know.
		ref := t.Foreign[i].RefTable
		if err := c.must(ref, catalog.References); err != nil {
			return "", err
		}
		if err := c.Catalog.Lock(c.ctx, []catalog.ID{ref}, catalog.ExcludeWriters, kv.Block); err != nil {
			return "", err
		}
		if err := c.link(t, &t.Foreign[i]); err != nil {
			return "", err
		}
	}
	if s.As == nil {
		return tag, nil
	}
	if !s.WithData {
		return tag, nil
	}
	n, err := c.fill(t, s.As)
	return fmt.Sprintf("SELECT %d", n), err
}

// link records a foreign key in the referenced table, which requires a right on that table.
func (c *change) link(t *catalog.Table, k *catalog.ForeignKey) error {
	if err := c.mayLink(t, k); err != nil {
		return err
	}
	if err := c.must(k.RefTable, catalog.References); err != nil {
		return err
	}
	if k.RefTable == t.ID {
		return nil
	}
	ref := c.Catalog.Table(k.RefTable)
	if ref == nil {
		return sqlstate.New(sqlstate.UndefinedTable, "relation with OID %d does not exist", k.RefTable)
	}
	if !ref.Traits().StableView.Can() && !c.isNew(t) {
		return excluded(ref, "a foreign key that refers to it from rows that are there").WithHint("%s", asLeader(ref))
	}
	r := catalog.Reference{Table: t.ID, Constraint: k.ID}
	if !slices.Contains(ref.ReferencedBy, r) {
		ref.ReferencedBy = append(ref.ReferencedBy, r)
	}
	return nil
}

// unlink is link's opposite.
func unlink(cat *lease.Txn, t *catalog.Table, k *catalog.ForeignKey) {
	ref := t
	if k.RefTable != t.ID {
		if ref = cat.Table(k.RefTable); ref == nil {
			return
		}
	}
	ref.ReferencedBy = slices.DeleteFunc(ref.ReferencedBy, func(r catalog.Reference) bool {
		return r.Table == t.ID && r.Constraint == k.ID
	})
}

// fill writes the rows of CREATE TABLE AS. No other transaction can see the table; it has one index, on the hidden
// column.
func (c *change) fill(t *catalog.Table, q *bind.Query) (int64, error) {
	x, err := rowcode.NewIndex(t, t.Primary())
	if err != nil {
		return 0, err
	}
	hidden := t.Ordinal(t.Primary().Columns[0].Column)
	var n int64
	var b txn.WriteBatch
	row := make(types.Row, len(t.Columns))
	_, err = c.Run(c.ctx, q, func(r types.Row) error {
		n++
		copy(row, r)
		row[hidden] = types.NewInt(n)
		k, err := x.AppendKey(nil, row)
		if err != nil {
			return err
		}
		v := x.AppendValue(nil, row)
		if err := x.Check(k, v); err != nil {
			return err
		}
		b.Put(k, v)
		if b.Bytes() < 1<<20 {
			return nil
		}
		err = c.kv.Write(c.ctx, &b)
		b = txn.WriteBatch{}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, c.kv.Write(c.ctx, &b)
}

// refresh replaces the rows of a materialized view, with the rights of its owner. Other transactions see the old ones until
// this one commits.
func (c *change) refresh(s *bind.RefreshView) error {
	t := s.View
	if err := c.mustOwn(t.ID); err != nil {
		return err
	}
	b := *c.Binder
	b.Refreshing = true
	name := parse.Name{Database: c.databaseName(t.Database), Schema: c.schemaName(t.Schema), Name: t.Name}.Quoted()
	for _, text := range []string{"DELETE FROM " + name, "INSERT INTO " + name + " " + t.View} {
		stmt, err := parse.ParseOne(text)
		if err != nil {
			return err
		}
		bound, err := b.Bind(c.ctx, stmt)
		if err != nil {
			return err
		}
		q, ok := bound.(*bind.Query)
		if !ok {
			return sqlstate.New(sqlstate.InternalError, "schemachange: not a query: %s", text)
		}
		for i := range q.Access {
			if q.Access[i].As == "" {
				q.Access[i].As = t.Owner
			}
		}
		if _, err := c.Run(c.ctx, q, nil); err != nil {
			return err
		}
		c.kv.StepStatement()
	}
	return nil
}

// dependent is an object that has to be dropped with another.
type dependent struct {
	// what is PostgreSQL's description: "view v", "constraint c on table t".
	what string
	on   string
	drop func() error
}

// dropRelations drops all of a list, or nothing.
func (c *change) dropRelations(s *bind.DropRelation) error {
	c.notices(s.Notices)
	c.hook()
	going := map[catalog.ID]bool{}
	for _, t := range s.Tables {
		if err := c.mustOwnToDrop(t); err != nil {
			return err
		}
		going[t.ID] = true
	}
	var deps []dependent
	for _, t := range s.Tables {
		for _, id := range t.Interleaved {
			if child := c.current(id); child != nil && !going[id] {
				return c.keepsParent(child, child.Interleave.Foreign)
			}
		}
		if err := c.requiredByIdentity(t, going); err != nil {
			return err
		}
		c.dependents(t, going, &deps)
	}
	if len(deps) > 0 && !s.Cascade {
		return inTheWay(c.describeDrop(s), deps)
	}
	c.noticeCascade(deps)
	for _, d := range deps {
		if err := d.drop(); err != nil {
			return err
		}
	}
	for _, t := range s.Tables {
		c.disown(t)
		c.drop(t.ID)
	}
	return nil
}

func (c *change) describeDrop(s *bind.DropRelation) string {
	if len(s.Tables) == 1 {
		return described(s.Tables[0]) + " " + c.name(s.Tables[0])
	}
	return "desired object(s)"
}

func inTheWay(what string, deps []dependent) error {
	e := sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop %s because other objects depend on it", what)
	if what == "desired object(s)" {
		e.Message = "cannot drop desired object(s) because other objects depend on them"
	}
	lines := make([]string, len(deps))
	for i, d := range deps {
		lines[i] = d.what + " depends on " + d.on
	}
	e.Detail = strings.Join(lines, "\n")
	e.Hint = "Use DROP ... CASCADE to drop the dependent objects too."
	return e
}

func (c *change) noticeCascade(deps []dependent) {
	switch len(deps) {
	case 0:
	case 1:
		c.noticef(sqlstate.SuccessfulCompletion, "drop cascades to %s", deps[0].what)
	default:
		e := sqlstate.New(sqlstate.SuccessfulCompletion, "drop cascades to %d other objects", len(deps))
		lines := make([]string, len(deps))
		for i, d := range deps {
			lines[i] = "drop cascades to " + d.what
		}
		e.Detail = strings.Join(lines, "\n")
		c.notice(e)
	}
}

func (c *change) current(id catalog.ID) *catalog.Table {
	d := c.Catalog.Descriptor(id)
	if d == nil || d.Table == nil || d.Table.Dropped {
		return nil
	}
	return d.Table
}

// dependents lists the objects that depend on a relation and are not in going, which it extends: the oldest first.
func (c *change) dependents(t *catalog.Table, going map[catalog.ID]bool, out *[]dependent) {
	name := described(t) + " " + c.name(t)
	var us []user
	for _, r := range t.ReferencedBy {
		if going[r.Table] {
			continue
		}
		child := c.current(r.Table)
		if child == nil {
			continue
		}
		for i := range child.Foreign {
			if k := &child.Foreign[i]; k.ID == r.Constraint {
				d := dependent{"constraint " + k.Name + " on table " + c.name(child), name, func() error {
					return c.removeForeign(r.Table, r.Constraint)
				}}
				us = append(us, user{id: k.OID, visit: func() { *out = append(*out, d) }})
			}
		}
	}
	for _, id := range c.usedBy(t) {
		us = append(us, user{id: id, visit: func() {
			v := c.current(id)
			if v == nil || going[id] {
				return
			}
			going[id] = true
			*out = append(*out, dependent{described(v) + " " + c.name(v), name, func() error { c.drop(id); return nil }})
			c.dependents(v, going, out)
		}})
	}
	oldestFirst(us)
	if t.Kind == catalog.KindSequence {
		c.defaultsOf(t, going, out)
	}
}

func (c *change) databaseName(id catalog.ID) string {
	if d := c.Catalog.Descriptor(id); d != nil && d.Database != nil {
		return d.Database.Name
	}
	return c.Info.Database
}

// removeForeign removes a foreign key.
func (c *change) removeForeign(table catalog.ID, constraint uint32) error {
	t := c.Catalog.Table(table)
	if err := c.keepsParent(t, constraint); err != nil {
		return err
	}
	for i := range t.Foreign {
		if t.Foreign[i].ID == constraint {
			unlink(c.Catalog, t, &t.Foreign[i])
			t.RemoveForeign(constraint)
			dropMutations(t, func(m catalog.Mutation) bool { return m.Kind == catalog.MutateForeignKey && m.ID == constraint })
			return nil
		}
	}
	return nil
}

func dropMutations(t *catalog.Table, f func(catalog.Mutation) bool) {
	t.Mutations = slices.DeleteFunc(t.Mutations, f)
}

// drop marks a relation and the sequences that it owns as dropped; a job removes the data.
func (c *change) drop(id catalog.ID) {
	t := c.Catalog.Table(id)
	if t == nil || t.Dropped {
		return
	}
	t.Dropped = true
	t.Unname(c.view.Zones().Placements)
	if t.Temporary() {
		c.clear(t) // removing rows from the session's memory does not fail
	}
	t.DropTime = c.o.Clock.Wall().UnixNano()
	c.leave(t)
	for i := range t.Foreign {
		if t.Foreign[i].RefTable != t.ID {
			unlink(c.Catalog, t, &t.Foreign[i])
		}
	}
	for _, d := range t.DependsOn {
		if t.Temporary() && !catalog.IsLocal(d) {
			continue // its descriptor does not list the view
		}
		if u := c.Catalog.Table(d); u != nil {
			u.UsedBy = slices.DeleteFunc(u.UsedBy, func(v catalog.ID) bool { return v == id })
		}
	}
	for i := range t.Columns {
		if s := t.Columns[i].OwnsSequence; s != 0 {
			c.drop(s)
		}
	}
	// These sequences are owned by OWNED BY alone.
	if t.Kind == catalog.KindTable {
		all, err := c.view.Tables(c.ctx, c.databaseName(t.Database))
		if err == nil {
			for _, u := range all {
				if u.Kind == catalog.KindSequence && u.Sequence.OwnerTable == id {
					c.drop(u.ID)
				}
			}
		}
	}
}

// truncate gives indexes new identities; a job removes the data of the old ones.
func (c *change) truncate(s *bind.Truncate) error {
	c.hook()
	set := map[catalog.ID]bool{}
	tables := slices.Clone(s.Tables)
	for _, t := range tables {
		set[t.ID] = true
	}
	for i := 0; i < len(tables); i++ {
		t := tables[i]
		if t.Kind != catalog.KindTable {
			return sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is not a table", t.Name)
		}
		if err := c.must(t.ID, catalog.Truncate); err != nil {
			return err
		}
		if now := c.current(t.ID); now != nil && !now.Traits().StableView.Can() {
			return excluded(now, "TRUNCATE").WithHint("DELETE removes the rows, some hundred in each transaction. Or %s", asLeader(now))
		}
		for _, r := range t.ReferencedBy {
			if set[r.Table] {
				continue
			}
			child := c.current(r.Table)
			if child == nil {
				continue
			}
			if !s.Cascade {
				return sqlstate.New(sqlstate.FeatureNotSupported, "cannot truncate a table referenced in a foreign key constraint").
					WithDetail("Table \"%s\" references \"%s\".", child.Name, t.Name).
					WithHint("Truncate table \"%s\" at the same time, or use TRUNCATE ... CASCADE.", child.Name)
			}
			c.noticef(sqlstate.SuccessfulCompletion, "truncate cascades to table \"%s\"", child.Name)
			set[child.ID] = true
			tables = append(tables, child)
		}
	}
	var restart []catalog.ID
	for _, t := range tables {
		if !s.RestartIdentity {
			break
		}
		for _, id := range c.ownedSequences(t) {
			if err := c.mustOwn(id); err != nil {
				return err
			}
			restart = append(restart, id)
		}
	}
	for _, t := range tables {
		kept, err := c.keepsPlace(c.current(t.ID))
		if err != nil {
			return err
		}
		m := c.Catalog.Table(t.ID)
		if err := c.awaitRewrite(m); err != nil {
			return err
		}
		for _, u := range m.Mutations {
			if u.Job != 0 {
				return c.Catalog.JobFirst(t.ID)
			}
		}
		if kept && !m.Temporary() {
			if err := notInHierarchy(m, "TRUNCATE within a super region"); err != nil {
				return err
			}
		}
		if kept {
			if err := c.clear(m); err != nil {
				return err
			}
			m.Generation++
			continue
		}
		was := m.Primary().ID
		for i := range m.Indexes {
			// The identity is never used again, so that the new rows can be loaded (txn.PrivateSpans).
			if err := c.Catalog.RenewIndex(c.ctx, m, &m.Indexes[i]); err != nil {
				return err
			}
		}
		if err := c.renamed(m, was, m.Primary().ID); err != nil {
			return err
		}
		m.Generation++
	}
	for _, id := range restart {
		if seq := c.Catalog.Table(id); seq != nil && !seq.Dropped {
			if err := c.restart(seq.Sequence, seq.Sequence.Start, seq.Temporary()); err != nil {
				return err
			}
		}
	}
	return nil
}
