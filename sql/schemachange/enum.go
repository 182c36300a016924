package schemachange

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/job"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Columns carry the version of their enum with them. So a change of an enum is a change of the tables that have columns of it, in one
// transaction, and the versions of the tables make it safe:
//
//	schemachange.SC8 (I7): A value that is added is readable for one version before it is public, so that no node writes a value that another can't read. A
//	    transaction that adds one has it as unsafe; the commit makes it readable, and the job that the commit waits for public,
//	    once every node uses the readable one. In a type that the transaction itself has made it is public at once. Should a
//	    reader meet a place that it does not know all the same, that is rowcode.NewerError, and it starts over.
//
// Texts that are stored name the types by their identity, with the type at each constant (parse.TypeReferences): a type is
// renamed and moved without touching them, its dependents are found by them, and a renamed label is replaced in them.

func (c *change) createType(s *bind.CreateType) error {
	db, sc, err := c.placeNew(s.Name, s.Temporary)
	if err != nil {
		return err
	}
	old, err := c.view.Type(c.ctx, sc.Name, s.Name.Name)
	if err != nil {
		return err
	}
	if old == nil {
		if t, err := c.view.NameTaken(db.ID, sc.ID, s.Name.Name); err != nil {
			return err
		} else if t != nil && t.Name == s.Name.Name && t.Kind != catalog.KindSequence {
			return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", s.Name.Name)
		}
	} else {
		if s.IfNotExists {
			c.noticef(sqlstate.DuplicateObject, "type \"%s\" already exists, skipping", s.Name.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", s.Name.Name)
	}
	c.hook()
	o := &oids{c: c, temporary: s.Temporary}
	array, id := o.next(), o.next() // in this order, as in PostgreSQL
	t := &catalog.Type{ID: id, Database: db.ID, SchemaID: sc.ID, Owner: c.Info.User,
		Enum: types.Enum{ID: uint32(id), Array: uint32(array), Schema: sc.Name, Name: s.Name.Name}}
	for i, l := range s.Labels {
		t.Enum.Values = append(t.Enum.Values, types.EnumValue{Label: l, Place: int64(i+1) * types.EnumGap, OID: uint32(o.next())})
	}
	if o.err != nil {
		return o.err
	}
	c.Catalog.New(lease.Descriptor{Type: t})
	return nil
}

// mustOwnType is mustOwn in the words of PostgreSQL.
func (c *change) mustOwnType(t *catalog.Type) error {
	if c.mustOwn(t.ID) == nil {
		return nil
	}
	return denied("must be owner of type %s", c.typeName(t))
}

func (c *change) alterType(s *bind.AlterType) error {
	if err := c.mustOwnType(s.Type); err != nil {
		return err
	}
	if err := c.refuseRegionEnum(s.Type, "changed"); err != nil {
		return err
	}
	if s.DropsValue {
		return sqlstate.New(sqlstate.FeatureNotSupported, "ALTER TYPE ... DROP VALUE is not supported").
			WithHint("Make another type with the other values, and give the columns that one by ALTER TABLE ... ALTER COLUMN ... TYPE.")
	}
	e := s.Type.Enum
	e.Values = slices.Clone(e.Values)
	switch {
	case s.Adds:
		if _, has := e.Find(s.Add); has {
			if s.IfNotExists {
				c.noticef(sqlstate.DuplicateObject, "enum label \"%s\" already exists, skipping", s.Add)
				if id := job.ID(s.Type.Job); id != 0 && c.Alone {
					// Another session has added the value a moment ago: it is public when this statement is done.
					c.Catalog.AfterCommit(func(ctx context.Context) error { return c.o.Jobs.Run(ctx, id) })
				}
				return nil
			}
			return sqlstate.New(sqlstate.DuplicateObject, "enum label \"%s\" already exists", s.Add)
		}
		if err := c.addValue(&e, s); err != nil {
			return err
		}
	case s.Renames:
		i := slices.IndexFunc(e.Values, func(v types.EnumValue) bool { return v.Label == s.RenameValue })
		if i < 0 {
			return sqlstate.New(sqlstate.InvalidParameterValue, "\"%s\" is not an existing enum label", s.RenameValue)
		}
		if _, has := e.Find(s.To); has {
			return sqlstate.New(sqlstate.DuplicateObject, "enum label \"%s\" already exists", s.To)
		}
		e.Values[i].Label = s.To
	case s.Rename != "":
		if err := c.mayNameType(s.Type, e.Schema, s.Rename); err != nil {
			return err
		}
		e.Name = s.Rename
	case s.Schema != "":
		sc, err := c.view.Schema(c.ctx, c.Info.Database, s.Schema)
		if err != nil {
			return err
		}
		if sc == nil {
			return sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", s.Schema)
		}
		if err := c.must(sc.ID, catalog.Create); err != nil {
			return err
		}
		if t, err := c.view.Type(c.ctx, sc.Name, e.Name); err != nil {
			return err
		} else if t != nil && t.ID != s.Type.ID {
			return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists in schema \"%s\"", e.Name, sc.Name)
		}
		e.Schema = sc.Name
		c.hook()
		c.Catalog.Type(s.Type.ID).SchemaID = sc.ID
	case s.Owner != "":
		o, ok := c.view.Access().Object(s.Type.ID)
		if !ok {
			return sqlstate.New(sqlstate.UndefinedObject, "type \"%s\" does not exist", e.Name)
		}
		to, err := c.mayGive(&o, s.Owner, s.Type.SchemaID)
		if err != nil {
			return err
		}
		c.hook()
		c.give(s.Type.ID, to)
		return nil
	}
	return c.replaceType(s.Type.ID, &e)
}

// addValue puts a value into an enum, at the end or next to another.
func (c *change) addValue(e *types.Enum, s *bind.AlterType) error {
	at := len(e.Values)
	if s.Before || s.After {
		if at = slices.IndexFunc(e.Values, func(v types.EnumValue) bool { return v.Label == s.Beside }); at < 0 {
			return sqlstate.New(sqlstate.InvalidParameterValue, "\"%s\" is not an existing enum label", s.Beside)
		}
		if s.After {
			at++
		}
	}
	v := types.EnumValue{Label: s.Add, State: types.ValueUnsafe}
	if catalog.IsLocal(s.Type.ID) && c.Alone {
		v.State = types.ValuePublic
	}
	switch {
	case len(e.Values) == 0:
		v.Place = types.EnumGap
	case at == 0:
		v.Place = e.Values[0].Place - types.EnumGap
	case at == len(e.Values):
		v.Place = e.Values[at-1].Place + types.EnumGap
	default:
		lo, hi := e.Values[at-1].Place, e.Values[at].Place
		if v.Place = lo + (hi-lo)/2; v.Place == lo {
			return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "there is no space for another value of enum type %s next to \"%s\"", e.Name, s.Beside).
				WithHint("Add it at another place, or make a new type and change the columns to it.")
		}
	}
	oid, err := c.newID(catalog.IsLocal(s.Type.ID))
	if err != nil {
		return err
	}
	v.OID = uint32(oid)
	e.Values = slices.Insert(e.Values, at, v)
	return nil
}

// mentions reports whether a stored text names a type.
func mentions(text string, e *types.Enum) (found bool) {
	parse.TypeReferences(text, func(r parse.TypeReference) (string, string) {
		found = found || r.OID == e.ID || r.OID == e.Array
		return r.Literal, ""
	})
	return found
}

func tableMentions(t *catalog.Table, e *types.Enum) (found bool) {
	t.EachText(func(s string) string {
		found = found || mentions(s, e)
		return s
	})
	return found
}

// relabelled is a stored text with the constants of a type as they are called now.
func relabelled(text string, old, now *types.Enum) string {
	return parse.TypeReferences(text, func(r parse.TypeReference) (string, string) {
		if r.HasLiteral && (r.OID == old.ID || r.OID == old.Array) {
			return relabelledValue(r.Literal, old, now, r.Array || r.OID == old.Array), ""
		}
		return r.Literal, ""
	})
}

// relabelledValue is a value as text, of the type or of arrays of it, with the labels of now.
func relabelledValue(text string, old, now *types.Enum, array bool) string {
	from, to := types.EnumOf(old), types.EnumOf(now)
	if array {
		from, to = types.ArrayOf(from), types.ArrayOf(to)
	}
	d, err := types.ParseText(from, text, nil)
	if err != nil {
		return text
	}
	return types.FormatText(d, to, nil)
}

// replaceType gives a type, and the columns that have it, a new version of its definition.
func (c *change) replaceType(id catalog.ID, e *types.Enum) error {
	c.hook()
	m := c.Catalog.Type(id)
	old := m.Enum
	m.Enum = *e
	relabels := slices.ContainsFunc(e.Values, func(v types.EnumValue) bool {
		was, known := old.Label(v.Place)
		return known && was != v.Label
	})
	all, err := c.view.Tables(c.ctx, c.databaseName(m.Database))
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.UsesEnum(e) || relabels && tableMentions(t, e) {
			u := c.Catalog.Table(t.ID)
			if relabels {
				u.EachText(func(s string) string { return relabelled(s, &old, e) })
				for i := range u.Columns {
					if col := &u.Columns[i]; col.HasMissing && col.Type.WithEnum(e) != nil {
						col.Missing = relabelledValue(col.Missing, &old, e, col.Type.Kind == types.KindArray)
					}
				}
			}
			u.SetEnum(e)
		}
	}
	return nil
}

// typePayload is the work of a job that makes the readable values of an enum public.
type typePayload struct{ Type catalog.ID }

// planTypes makes unsafe values readable, and the jobs that make these public (schemachange.SC8).
func (e *Executor) planTypes(ctx context.Context, tx *txn.Txn, cat *lease.Txn) error {
	return cat.EachType(func(base, now *catalog.Type) error {
		if now.Dropped {
			return nil
		}
		to := types.ValueReadable
		if base == nil {
			to = types.ValuePublic
		}
		settled, added := now.Enum.Settled(types.ValueUnsafe, to)
		if added {
			if err := settle(ctx, cat, now, settled); err != nil {
				return err
			}
		}
		if d := cat.Descriptor(now.Database); d != nil && d.Database != nil && d.Database.RegionEnum == now.ID {
			return e.planRegions(ctx, tx, cat, now)
		}
		if !added || base == nil {
			return nil
		}
		id, err := e.o.Jobs.Create(ctx, tx, job.Spec{Type: jobType, Description: "type " + now.Enum.Name + ": add value", Payload: typePayload{now.ID}})
		if err != nil {
			return err
		}
		now.Job = int64(id)
		cat.AfterCommit(func(ctx context.Context) error { return e.o.Jobs.Run(ctx, id) })
		return nil
	})
}

// settle gives a type, and its columns, another version with the states of its values changed.
func settle(ctx context.Context, cat *lease.Txn, t *catalog.Type, to *types.Enum) error {
	t.Enum = *to
	return cat.EachRelation(t.Database, func(u *catalog.Table) error {
		if u.UsesEnum(to) {
			cat.Table(u.ID).SetEnum(to)
		}
		return nil
	})
}

// publishValues is the job that makes readable values public.
func (e *Executor) publishValues(ctx context.Context, r *job.Run) error {
	var p typePayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	d := e.o.Leases.Snapshot().Descriptor(p.Type)
	if d == nil || d.Type == nil || d.Type.Dropped {
		return nil
	}
	// The publisher may have died before the readable values were in use everywhere.
	if err := e.o.Leases.Everywhere(ctx, catalog.Dependency{ID: d.Type.ID, Version: d.Type.Version}); err != nil {
		return err
	}
	return e.o.Leases.Change(ctx, func(ctx context.Context, _ *txn.Txn, cat *lease.Txn) error {
		t := cat.Type(p.Type)
		if t == nil || t.Dropped {
			return nil
		}
		to, some := t.Enum.Settled(types.ValueReadable, types.ValuePublic)
		if t.Job = 0; !some {
			return nil
		}
		return settle(ctx, cat, t, to)
	})
}

// abandonType lets others change an enum again whose job has failed; its readable values stay, and the next change of the enum makes them public.
func (e *Executor) abandonType(ctx context.Context, r *job.Run) error {
	var p typePayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	return e.freeType(ctx, p.Type, int64(r.Job.ID))
}

func (e *Executor) freeType(ctx context.Context, id catalog.ID, job int64) error {
	return e.o.Leases.Change(ctx, func(_ context.Context, _ *txn.Txn, cat *lease.Txn) error {
		if d := cat.Descriptor(id); d == nil || d.Type == nil || d.Type.Dropped || d.Type.Job != job {
			return nil
		}
		cat.Type(id).Job = 0
		return nil
	})
}

// typeName is a type's name as PostgreSQL shows it: with its schema where its name alone would not find it.
func (c *change) typeName(t *catalog.Type) string {
	name := types.EnumOf(&t.Enum).Name()
	if seen, err := c.view.Type(c.ctx, "", t.Enum.Name); err != nil || seen == nil || seen.ID != t.ID {
		return quoteIdent(t.Enum.Schema) + "." + name
	}
	return name
}

// mustOwnToDropType is mustOwnType for DROP, which the owner of the schema may do as well.
func (c *change) mustOwnToDropType(t *catalog.Type) error {
	a := c.view.Access()
	if o, ok := a.Object(t.SchemaID); ok && a.Owns(c.Info.User, &o) {
		return nil
	}
	return c.mustOwnType(t)
}

func (c *change) dropTypes(s *bind.DropType) error {
	c.notices(s.Notices)
	for _, t := range s.Types {
		if err := c.mustOwnToDropType(t); err != nil {
			return err
		}
		if err := c.refuseRegionEnum(t, "dropped"); err != nil {
			return err
		}
	}
	what := "desired object(s)"
	if len(s.Types) == 1 {
		what = "type " + c.typeName(s.Types[0])
	}
	deps, err := c.typeDependents(s.Types, map[catalog.ID]bool{})
	if err != nil {
		return err
	}
	if len(deps) > 0 && !s.Cascade {
		return inTheWay(what, plain(deps))
	}
	c.noticeCascade(plain(deps))
	c.hook()
	if err := c.dropDependents(deps); err != nil {
		return err
	}
	for _, t := range s.Types {
		c.dropType(t.ID)
	}
	return nil
}

func (c *change) dropType(id catalog.ID) {
	if m := c.Catalog.Type(id); m != nil {
		m.Dropped = true
	}
}

// dropDependents drops the objects that typeDependents has found, each before those that it depends on.
func (c *change) dropDependents(deps []typeDependent) error {
	// A statement in a transaction, and one that drops keys, first locks the tables (schemachange.SC5).
	var ids []catalog.ID
	for _, d := range deps {
		if u := c.current(d.table); u != nil && (!c.Alone || d.column != 0 && inKey(u, d.column)) && !slices.Contains(ids, d.table) {
			ids = append(ids, d.table)
		}
	}
	if len(ids) > 0 {
		if err := c.lock(ids...); err != nil {
			return err
		}
	}
	for _, d := range slices.Backward(deps) {
		if err := d.drop(); err != nil {
			return err
		}
	}
	return nil
}

// typeDrop finds the dependents of types in PostgreSQL's order: it visits the dependents of an object from the newest to the
// oldest, each with its own dependents, and lists them in reverse.
type typeDrop struct {
	*change
	all  []*catalog.Table
	seen map[string]bool
	// met is the object of the last call of once; with are the objects that are dropped with another without being named.
	met  string
	with map[string]bool
	// going are relations that are dropped as a whole.
	going map[catalog.ID]bool
	out   []typeDependent
}

// typeDependent is a dependent; if it is a part of a relation, it has that, too.
type typeDependent struct {
	dependent
	table  catalog.ID
	column catalog.ColumnID
	key    string
}

func (d *typeDrop) add(table catalog.ID, column catalog.ColumnID, what, on string, drop func() error) {
	d.out = append(d.out, typeDependent{dependent{what, on, drop}, table, column, d.met})
}

func plain(deps []typeDependent) (out []dependent) {
	for _, d := range deps {
		out = append(out, d.dependent)
	}
	return out
}

// user is an object that depends on another: visit lists it.
type user struct {
	id    catalog.ID
	part  uint32
	visit func()
}

// newestFirst visits objects by their identities, the largest first, and the parts of one object in their order.
func newestFirst(us []user) {
	slices.SortStableFunc(us, func(a, b user) int {
		if a.id != b.id {
			return cmp.Compare(b.id, a.id)
		}
		return cmp.Compare(a.part, b.part)
	})
	for _, u := range us {
		u.visit()
	}
}

// oldestFirst visits objects by their identities, the smallest first.
func oldestFirst(us []user) {
	slices.SortStableFunc(us, func(a, b user) int { return cmp.Compare(a.id, b.id) })
	for _, u := range us {
		u.visit()
	}
}

// typeDependents lists the dependents of types, except relations that are dropped anyway.
func (c *change) typeDependents(list []*catalog.Type, going map[catalog.ID]bool) ([]typeDependent, error) {
	all, err := c.view.Tables(c.ctx, c.Info.Database)
	if err != nil {
		return nil, err
	}
	d := &typeDrop{change: c, all: all, seen: map[string]bool{}, with: map[string]bool{}, going: going}
	for _, t := range list {
		// A column of arrays depends on the type of the arrays, which is the older one.
		us := d.users(t, false)
		us = append(us, user{id: 0, visit: func() { newestFirst(d.users(t, true)) }})
		newestFirst(us)
	}
	d.out = slices.DeleteFunc(d.out, func(x typeDependent) bool { return d.with[x.key] })
	slices.Reverse(d.out)
	return d.out, nil
}

// users are the objects that depend on a type directly, or on that of its arrays.
func (d *typeDrop) users(t *catalog.Type, arrays bool) (us []user) {
	on := "type " + d.typeName(t)
	if arrays {
		on += "[]"
	}
	uses := func(text string) (found bool) {
		parse.TypeReferences(text, func(r parse.TypeReference) (string, string) {
			found = found || r.OID == t.Enum.ID && r.Array == arrays || r.OID == t.Enum.Array && arrays
			return r.Literal, ""
		})
		return found
	}
	add := func(id catalog.ID, part uint32, visit func()) { us = append(us, user{id, part, visit}) }
	for _, u := range d.all {
		if d.going[u.ID] {
			continue
		}
		for i := range u.Columns {
			col := &u.Columns[i]
			if col.State != catalog.Public && !u.Adding(col) {
				continue
			}
			if has := col.Type.WithEnum(&t.Enum); has != nil && (has.Kind == types.KindArray) == arrays {
				if u.Kind == catalog.KindView {
					add(u.ID, uint32(col.ID), func() { newestFirst(d.readers(u, col.Name, "column "+col.Name+" of view "+d.name(u))) })
				} else {
					add(u.ID, uint32(col.ID), func() { d.column(u, col, on) })
				}
			}
			if uses(col.Generated) {
				add(u.ID+1, uint32(col.ID), func() { d.column(u, col, on) })
			}
			if uses(col.OnUpdate) {
				add(u.ID+1, uint32(col.ID), func() { d.onUpdateOf(u, col, on) })
			}
			if uses(col.Default) {
				add(u.ID+1, uint32(col.ID), func() { d.defaultOf(u, col, on) })
			}
		}
		if uses(u.View) {
			add(u.ID+1, 0, func() { d.view(u, on) })
		}
		for i := range u.Checks {
			if k := &u.Checks[i]; uses(k.Expr) {
				add(k.OID, 0, func() { d.check(u, k, on) })
			}
		}
		for i := range u.Indexes {
			if x := &u.Indexes[i]; x.State == catalog.Public && uses(x.Predicate) {
				add(x.OID, 0, func() { d.index(u, x, on) })
			}
		}
	}
	return us
}

// once reports whether an object is met for the first time.
func (d *typeDrop) once(kind string, table catalog.ID, part uint32) bool {
	d.met = fmt.Sprintf("%s %d %d", kind, table, part)
	was := d.seen[d.met]
	d.seen[d.met] = true
	return !was
}

// along notes that an object is dropped with another.
func (d *typeDrop) along(kind string, table catalog.ID, part uint32) {
	d.once(kind, table, part)
	d.with[d.met] = true
}

// name is a relation's name, with its schema where the name alone would not find it.
func (c *change) name(t *catalog.Table) string {
	if found, err := c.view.Table(c.ctx, "", "", t.Name); err != nil || found == nil || found.ID != t.ID {
		return quoteIdent(c.schemaName(t.Schema)) + "." + quoteIdent(t.Name)
	}
	return quoteIdent(t.Name)
}

// indexName is name for an index of a table.
func (c *change) indexName(t *catalog.Table, x *catalog.Index) string {
	if schema := c.schemaName(t.Schema); !slices.Contains(c.view.SearchPath(), schema) {
		return quoteIdent(schema) + "." + quoteIdent(x.Name)
	}
	return quoteIdent(x.Name)
}

// readers are the views that read a column of a relation.
func (d *typeDrop) readers(t *catalog.Table, column, on string) (us []user) {
	for _, id := range d.usedBy(t) {
		if v := d.current(id); v != nil && !d.going[id] && usesColumn(v.View, column) {
			us = append(us, user{id, 0, func() { d.view(v, on) }})
		}
	}
	return us
}

func (d *typeDrop) column(t *catalog.Table, col *catalog.Column, on string) {
	if !d.once("column", t.ID, uint32(col.ID)) {
		return
	}
	what := "column " + quoteIdent(col.Name) + " of table " + d.name(t)
	us := d.readers(t, col.Name, what)
	for _, k := range d.incoming(t) {
		if slices.Contains(k.key.RefColumns, col.ID) {
			us = append(us, user{k.key.OID, 0, func() { d.foreign(k.table, k.key, what) }})
		}
	}
	for i := range t.Columns {
		if g := &t.Columns[i]; g.Generated != "" && g.ID != col.ID && g.State == catalog.Public && usesColumn(g.Generated, col.Name) {
			us = append(us, user{t.ID, uint32(g.ID), func() { d.column(t, g, what) }})
		}
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; slices.Contains(k.Columns, col.ID) {
			d.along("foreign", t.ID, k.ID)
		}
	}
	for i := range t.Checks {
		if k := &t.Checks[i]; slices.Contains(k.Columns, col.ID) {
			d.along("check", t.ID, k.ID)
		}
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; slices.ContainsFunc(x.Columns, func(k catalog.IndexColumn) bool { return k.Column == col.ID }) || slices.Contains(x.Stored, col.ID) {
			d.along("index", t.ID, uint32(x.ID))
		}
	}
	d.along("default", t.ID, uint32(col.ID))
	newestFirst(us)
	d.met = ""
	name := col.Name
	d.add(t.ID, col.ID, what, on, func() error {
		m := d.Catalog.Table(t.ID)
		if m == nil || m.Dropped || m.ColumnByName(name) == nil {
			return nil
		}
		return d.dropColumn(m, &bind.DropColumn{Name: name, Cascade: true})
	})
}

func (d *typeDrop) view(v *catalog.Table, on string) {
	if !d.once("relation", v.ID, 0) {
		return
	}
	d.going[v.ID] = true
	what := described(v) + " " + d.name(v)
	var us []user
	for _, id := range d.usedBy(v) {
		if w := d.current(id); w != nil && !d.going[id] {
			us = append(us, user{id, 0, func() { d.view(w, what) }})
		}
	}
	newestFirst(us)
	d.met = ""
	d.add(0, 0, what, on, func() error { d.drop(v.ID); return nil })
}

func (d *typeDrop) foreign(t *catalog.Table, k *catalog.ForeignKey, on string) {
	if d.going[t.ID] || !d.once("foreign", t.ID, k.ID) {
		return
	}
	id := k.ID
	d.add(t.ID, 0, "constraint "+quoteIdent(k.Name)+" on table "+d.name(t), on, func() error { return d.removeForeign(t.ID, id) })
}

func (d *typeDrop) check(t *catalog.Table, k *catalog.Check, on string) {
	if !d.once("check", t.ID, k.ID) {
		return
	}
	id := k.ID
	d.add(t.ID, 0, "constraint "+quoteIdent(k.Name)+" on table "+d.name(t), on, func() error {
		m := d.Catalog.Table(t.ID)
		m.Checks = slices.DeleteFunc(m.Checks, func(o catalog.Check) bool { return o.ID == id })
		dropMutations(m, func(u catalog.Mutation) bool { return u.Kind == catalog.MutateCheck && u.ID == id })
		return nil
	})
}

func (d *typeDrop) defaultOf(t *catalog.Table, col *catalog.Column, on string) {
	if !d.once("default", t.ID, uint32(col.ID)) {
		return
	}
	id := col.ID
	d.add(t.ID, 0, "default value for column "+quoteIdent(col.Name)+" of table "+d.name(t), on, func() error {
		if c := d.Catalog.Table(t.ID).Column(id); c != nil {
			c.Default = ""
		}
		return nil
	})
}

func (d *typeDrop) onUpdateOf(t *catalog.Table, col *catalog.Column, on string) {
	if !d.once("on update", t.ID, uint32(col.ID)) {
		return
	}
	id := col.ID
	d.add(t.ID, 0, "ON UPDATE expression of column "+quoteIdent(col.Name)+" of table "+d.name(t), on, func() error {
		if c := d.Catalog.Table(t.ID).Column(id); c != nil {
			c.OnUpdate = ""
		}
		return nil
	})
}

func (d *typeDrop) index(t *catalog.Table, x *catalog.Index, on string) {
	if !d.once("index", t.ID, uint32(x.ID)) {
		return
	}
	id := x.ID
	d.add(t.ID, 0, "index "+quoteIdent(x.Name), on, func() error {
		m := d.Catalog.Table(t.ID)
		if m == nil || m.Index(id) == nil {
			return nil
		}
		return d.removeIndex(m, id)
	})
}

// mayNameType refuses a name that a type or a relation of the schema has.
func (c *change) mayNameType(t *catalog.Type, schema, name string) error {
	if other, err := c.view.Type(c.ctx, schema, name); err != nil {
		return err
	} else if other != nil {
		return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", name)
	}
	if other, err := c.view.NameTaken(t.Database, t.SchemaID, name); err != nil {
		return err
	} else if other != nil && other.Name == name && other.Kind != catalog.KindSequence {
		return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", name)
	}
	return nil
}

// refuseLocal refuses a permanent relation that names a type or a sequence of the session's own.
func (c *change) refuseLocal() error {
	if c.Catalog.Local().Empty() {
		return nil
	}
	return c.Catalog.EachTable(func(_, t *catalog.Table) error {
		what := ""
		t.EachText(func(s string) string {
			parse.TypeReferences(s, func(r parse.TypeReference) (string, string) {
				if catalog.IsLocal(catalog.ID(r.OID)) {
					what = "type"
				}
				return r.Literal, ""
			})
			for _, id := range namedSequences(s) {
				if catalog.IsLocal(id) {
					what = "sequence"
				}
			}
			return s
		})
		for i := range t.Columns {
			if x := t.Columns[i].Type; x.IsEnum() && catalog.IsLocal(catalog.ID(x.OID())) {
				what = "type"
			}
		}
		if what == "" || t.Dropped {
			return nil
		}
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s \"%s\" cannot use a temporary %s", described(t), t.Name, what).
			WithHint("Other sessions do not know the %s. Make it in another schema, or make the %s a temporary one.", what, described(t))
	})
}

// mayUseColumns refuses a relation with columns of types that the user may not use.
func (c *change) mayUseColumns(t *catalog.Table) error {
	for i := range t.Columns {
		if err := c.mayUse(t.Columns[i].Type); err != nil {
			return err
		}
	}
	return nil
}

// mayUse refuses types that the user may not use.
func (c *change) mayUse(ts ...*types.T) error {
	for _, t := range ts {
		if t.Kind == types.KindArray && t.Elem != nil {
			t = t.Elem
		}
		if t.Kind != types.KindEnum {
			continue
		}
		if err := c.must(catalog.ID(t.Enum.ID), catalog.Usage); err != nil {
			return err
		}
	}
	return nil
}

// typesIn are the types of a schema.
func (c *change) typesIn(sc *catalog.Schema) (out []*catalog.Type, err error) {
	err = c.Catalog.EachTypeOf(sc.Database, func(t *catalog.Type) {
		if t.SchemaID == sc.ID {
			out = append(out, t)
		}
	})
	return out, err
}

// noSuchType refuses a name for a relation that a type of the schema has: PostgreSQL makes a type of the same name for each relation.
func (c *change) noSuchType(schema, name string) error {
	t, err := c.view.Type(c.ctx, schema, name)
	if err != nil || t == nil {
		return err
	}
	return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", name).
		WithHint("A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.")
}

// namedSequences are the relations that a stored text names by number.
func namedSequences(text string) (ids []catalog.ID) {
	for {
		before, after, ok := strings.Cut(text, "'::regclass")
		if !ok {
			return ids
		}
		if n, err := strconv.ParseUint(before[strings.LastIndexByte(before, '\'')+1:], 10, 32); err == nil {
			ids = append(ids, catalog.ID(n))
		}
		text = after
	}
}
