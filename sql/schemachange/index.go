package schemachange

import (
	"slices"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
)

func (c *change) createIndex(s *bind.CreateIndex) error {
	c.notices(s.Notices)
	if s.Exists {
		return nil
	}
	if s.Concurrently && c.Explicit {
		return sqlstate.New(sqlstate.ActiveTransaction, "CREATE INDEX CONCURRENTLY cannot run inside a transaction block")
	}
	if err := c.mustOwn(s.Table.ID); err != nil {
		return err
	}
	if err := c.must(s.Table.Schema, catalog.Create); err != nil {
		return err
	}
	c.hook()
	if err := c.claim(s.Table.ID); err != nil {
		return err
	}
	t := c.Catalog.Table(s.Table.ID)
	if err := c.awaitRewrite(t); err != nil {
		return err
	}
	if !t.Traits().StableView.Can() && !c.isNew(t) {
		return excluded(t, "CREATE INDEX").WithHint("%s %s", t.Traits().StableView, asLeader(t))
	}
	if err := c.regionsFirst(t); err != nil {
		return err
	}
	if taken, err := c.view.NameTaken(t.Database, t.Schema, s.Index.Name); err != nil {
		return err
	} else if taken != nil {
		return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists", s.Index.Name)
	}
	return c.addIndex(t, &s.Index, false)
}

// addIndex adds an index: at once if only this transaction can see the table, else step by step.
func (c *change) addIndex(t *catalog.Table, d *bind.IndexDef, constraint bool) error {
	if slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool { return m.Job != 0 && m.Replaces != 0 }) {
		// Its entries would end with the old key, and the job makes no copy of it.
		return c.Catalog.JobFirst(t.ID)
	}
	oid, err := c.newID(t.Temporary())
	if err != nil {
		return err
	}
	x := bind.AppendIndex(t, d, oid)
	c.keepsClasses(x)
	x.Constraint = constraint
	if err := verifyEncodable(t, x); err != nil {
		return err
	}
	if c.own(t) {
		if err := c.renew(t, x); err != nil {
			return err
		}
		return c.fillHere(t, x)
	}
	t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateIndex, ID: uint32(x.ID)})
	x.State = c.firstState(t, x)
	return nil
}

// renew gives an index, of a table that others have used, an identity that was never used, so that its entries can be loaded:
// no other transaction finds them before the commit, or at all if there is none (txn.LD1).
func (c *change) renew(t *catalog.Table, x *catalog.Index) error {
	if c.isNew(t) {
		return c.reserveIndex(t, x)
	}
	if err := c.Catalog.RenewIndex(c.ctx, t, x); err != nil {
		return err
	}
	if err := c.mustBeInPlace(t, x); err != nil {
		return err
	}
	return c.insure(t, x)
}

// fillHere fills an index within the transaction, of a table that no other transaction uses.
func (c *change) fillHere(t *catalog.Table, x *catalog.Index) error {
	sctx := c.Scalar
	if sctx == nil || t.Rewrite == nil {
		sctx = c.o.scalarContext(c.ctx, lease.Info{Database: c.view.CurrentDatabase()}, c.Binder.Location)
	}
	b, err := c.o.backfill(c.ctx, c.view, t, x, sctx)
	if err != nil {
		return err
	}
	span := b.Span()
	for next := &span; next != nil; {
		c.kv.StepStatement()
		if next, err = b.Step(c.ctx, c.kv, *next, chunkRows); err != nil {
			return err
		}
	}
	c.kv.StepStatement()
	return b.CheckRegions(c.ctx, c.kv)
}

func (c *change) dropIndexes(s *bind.DropIndex) error {
	c.notices(s.Notices)
	if s.Concurrently && c.Explicit {
		return sqlstate.New(sqlstate.ActiveTransaction, "DROP INDEX CONCURRENTLY cannot run inside a transaction block")
	}
	c.hook()
	for _, r := range s.Indexes {
		if err := c.mustOwnIndex(r.Table, r.Index.Name, true); err != nil {
			return err
		}
		if err := c.claim(r.Table.ID); err != nil {
			return err
		}
		t := c.Catalog.Table(r.Table.ID)
		if err := c.awaitRewrite(t); err != nil {
			return err
		}
		x := t.Index(r.Index.ID)
		if x == nil {
			return sqlstate.New(sqlstate.UndefinedObject, "index \"%s\" does not exist", r.Index.Name)
		}
		if x.Primary || x.Constraint {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop index %s because constraint %s on table %s requires it", c.indexName(t, x), x.Name, c.name(t)).
				WithHint("You can drop constraint %s on table %s instead.", x.Name, c.name(t))
		}
		if err := c.releaseKey(t, x, "index "+c.indexName(t, x), s.Cascade); err != nil {
			return err
		}
		if err := c.removeIndex(t, x.ID); err != nil {
			return err
		}
	}
	return nil
}

// removeIndex begins the removal of a secondary index; an index that no other transaction knows is removed at once. One
// that is still being added goes back from its present state, and the job that was adding it has nothing left to do.
func (c *change) removeIndex(t *catalog.Table, id catalog.IndexID) error {
	erase := func() {
		t.Indexes = slices.DeleteFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == id })
	}
	own, adding := -1, -1
	for i, m := range t.Mutations {
		if m.Kind != catalog.MutateIndex {
			continue
		}
		if m.Job != 0 && m.Replaces != 0 && (m.ID == uint32(id) || m.Replaces == id) {
			return c.Catalog.JobFirst(t.ID)
		}
		if m.ID == uint32(id) {
			if m.Drop {
				return nil
			}
			if adding = i; m.Job == 0 {
				own = i
			}
		}
	}
	if own >= 0 {
		t.Mutations = slices.Delete(t.Mutations, own, own+1)
		erase()
		return nil
	}
	if c.own(t) {
		erase()
		return nil
	}
	x := t.Index(id)
	if adding >= 0 {
		t.Mutations = slices.Delete(t.Mutations, adding, adding+1)
	} else {
		x.State = catalog.WriteOnly
	}
	// Its name is free from here on.
	x.Name, x.Constraint = "", false
	t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateIndex, ID: uint32(id), Drop: true})
	return nil
}

// addPrimaryKey replaces the primary key: a new primary index is filled in addition to the old one, together with a copy of
// every secondary index, whose entries end with the primary key; then they change places.
func (c *change) addPrimaryKey(t *catalog.Table, d *bind.IndexDef) error {
	if err := notInHierarchy(t, "another primary key"); err != nil {
		return err
	}
	if slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool { return m.Kind == catalog.MutateIndex && m.Job != 0 }) {
		return c.Catalog.JobFirst(t.ID)
	}
	old := t.Primary()
	oldID := old.ID
	oid, err := c.newID(t.Temporary())
	if err != nil {
		return err
	}
	for _, k := range d.Columns {
		col := t.ColumnByName(k.Name)
		if col == nil {
			return sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" named in key does not exist", k.Name)
		}
		if err := c.setNotNull(t, col); err != nil {
			return err
		}
	}
	d.Primary, d.Unique = true, true
	if !t.ImplicitPrimary && d.Name == old.Name {
		old.Name = ""
	}
	x := bind.AppendIndex(t, d, oid)
	x.Constraint = true
	if err := c.keepsKey(t, t.Index(oldID), x); err != nil {
		return err
	}
	if err := carry(t, t.Index(oldID), x); err != nil {
		return err
	}
	return c.exchangeKey(t, oldID, nil)
}

// carry gives a new primary index what was said of the places of the old one's rows, and refuses a key that these can't be said of.
func carry(t *catalog.Table, old, x *catalog.Index) error {
	x.Zone = old.Zone
	if n := old.DirectoryColumns(); n > 0 {
		if n > len(x.Columns) || !slices.Equal(old.Columns[:n], x.Columns[:n]) {
			return sqlstate.New(sqlstate.FeatureNotSupported, "the primary key of table \"%s\" can't be replaced by one that does not begin with the columns by which its directories have placements", t.Name).
				WithHint("SHOW DIRECTORIES FROM TABLE %s lists them. Take their placements away by ALTER TABLE ... RESET PLACEMENT FOR VALUES (...), and set them for the new key.", quoteIdent(t.Name))
		}
		x.Directories = old.Directories
	}
	if old.Partitioning == nil {
		x.PartitionZones = old.PartitionZones // those of regions
		return nil
	}
	n := depth(old.Partitioning)
	if n > len(x.Columns) || !slices.Equal(old.Columns[:n], x.Columns[:n]) {
		var names []string
		for _, k := range old.Columns[:n] {
			names = append(names, t.Column(k.Column).Name)
		}
		return sqlstate.New(sqlstate.FeatureNotSupported, "the primary key of table \"%s\" can't be replaced by one that does not begin with the columns by which it is partitioned: %s", t.Name, strings.Join(names, ", ")).
			WithHint("ALTER TABLE %s PARTITION BY NOTHING, and partition the new key.", quoteIdent(t.Name))
	}
	x.Partitioning, x.PartitionZones = old.Partitioning, old.PartitionZones
	return nil
}

// depth is how many key columns a partitioning divides by, those of partitionings within it included.
func depth(p *catalog.Partitioning) int {
	below := 0
	for i := range p.Partitions {
		if sub := p.Partitions[i].Sub; sub != nil {
			below = max(below, depth(sub))
		}
	}
	return p.Columns + below
}

// exchangeKey replaces the primary index, with identity oldID, by the last index of the table, and the secondary indexes by copies, which alter may change.
func (c *change) exchangeKey(t *catalog.Table, oldID catalog.IndexID, alter func(*catalog.Index)) error {
	old, x := t.Index(oldID), &t.Indexes[len(t.Indexes)-1]
	suffix := make([]catalog.ColumnID, len(old.Columns))
	for i, k := range old.Columns {
		suffix[i] = k.Column
	}
	newSuffix := make([]catalog.ColumnID, len(x.Columns))
	for i, k := range x.Columns {
		newSuffix[i] = k.Column
	}
	x.State = catalog.DeleteOnly
	m := []catalog.Mutation{{Kind: catalog.MutateIndex, ID: uint32(x.ID), Replaces: oldID}}
	for i, n := 1, len(t.Indexes)-1; i < n; i++ {
		s := &t.Indexes[i]
		if s.State != catalog.Public {
			continue
		}
		s.Suffix = suffix
		cp := *s
		cp.Columns = slices.Clone(s.Columns)
		cp.ID, cp.State, cp.Suffix = t.NextIndex, catalog.DeleteOnly, newSuffix
		t.NextIndex++
		// Until the exchange, entries still have to lead to the old primary key.
		cp.Stored = slices.Clone(s.Stored)
		for _, col := range suffix {
			if !slices.Contains(cp.Stored, col) && !slices.Contains(newSuffix, col) && !slices.ContainsFunc(s.Columns, func(k catalog.IndexColumn) bool { return k.Column == col }) {
				cp.Stored = append(cp.Stored, col)
			}
		}
		cp.Name = ""
		if alter != nil {
			alter(&cp)
		}
		m = append(m, catalog.Mutation{Kind: catalog.MutateIndex, ID: uint32(cp.ID), Replaces: s.ID})
		t.Indexes = append(t.Indexes, cp)
	}
	if !c.own(t) {
		t.Mutations = append(t.Mutations, m...)
		for _, u := range m {
			n := t.Index(catalog.IndexID(u.ID))
			n.State = c.firstState(t, n)
		}
		return nil
	}
	for i := range m {
		u := &m[i]
		x := t.Index(catalog.IndexID(u.ID))
		x.State = catalog.WriteOnly
		if err := c.renew(t, x); err != nil {
			return err
		}
		u.ID = uint32(x.ID)
		if err := c.fillHere(t, x); err != nil {
			return err
		}
	}
	for _, u := range m {
		replace(t, u)
	}
	finishReplace(t)
	// No other transaction has seen the old indexes.
	for _, u := range m {
		t.Indexes = slices.DeleteFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == u.Replaces })
	}
	t.Mutations = slices.DeleteFunc(t.Mutations, func(u catalog.Mutation) bool { return u.Kind == catalog.MutateIndex && u.Drop })
	dropHidden(t)
	return nil
}

// replace makes a filled index take the place and name of the one that it replaces, which stays written until no node
// reads it.
func replace(t *catalog.Table, m catalog.Mutation) {
	at := slices.IndexFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == catalog.IndexID(m.ID) })
	was := slices.IndexFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == m.Replaces })
	if at < 0 || was < 0 {
		return
	}
	n, o := t.Indexes[at], t.Indexes[was]
	n.State = catalog.Public
	if !n.Primary {
		n.Stored, n.Suffix = o.Stored, nil
	}
	if n.Name == "" {
		n.Name, n.OID = o.Name, o.OID
	}
	o.State, o.Name, o.Constraint = catalog.WriteOnly, "", false
	t.Indexes[was], t.Indexes[at] = n, o
	t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateIndex, ID: uint32(o.ID), Drop: true, Job: m.Job})
}

// finishReplace is called when all indexes of a new primary key have taken their places.
func finishReplace(t *catalog.Table) {
	if r := t.Relocation; r != nil {
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if x.Placed == nil {
				x.Placed = &catalog.Relocation{Locality: t.Locality, Column: t.RegionColumn}
			} else if x.State == catalog.Public {
				x.Placed = nil
			}
		}
		t.Locality, t.RegionColumn, t.Relocation = r.Locality, r.Column, nil
		return
	}
	t.ImplicitPrimary = false
}

// dropHidden removes the column rowid once no index has it in its key.
func dropHidden(t *catalog.Table) {
	for i := range t.Columns {
		col := &t.Columns[i]
		if !col.Hidden || col.Default != "unique_rowid()" {
			continue
		}
		used := slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool {
			return slices.ContainsFunc(x.Columns, func(k catalog.IndexColumn) bool { return k.Column == col.ID }) || slices.Contains(x.Suffix, col.ID)
		})
		if used {
			continue
		}
		id := col.ID
		for j := range t.Indexes {
			t.Indexes[j].Stored = slices.DeleteFunc(t.Indexes[j].Stored, func(s catalog.ColumnID) bool { return s == id })
		}
		t.Columns = slices.Delete(t.Columns, i, i+1)
		return
	}
}
