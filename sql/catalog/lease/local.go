package lease

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Local is the part of the catalogue that one session keeps for itself: its temporary relations, and the schema that they are in. It is
// never stored, no other session sees it, and no change waits for a version of it. Its identities are a range of their own
// (catalog.IsLocal), so that no key and no descriptor of the cluster has one.
//
//	lease.LC1: Names of temporary relations come before all others, unless the search path says otherwise (pg_temp).
//	lease.LC2: Changes are the open transaction's until Commit; Rollback and RollbackTo take them back.
//	lease.LC3: A version of a local descriptor is given once in the session's life, also when the change is taken back: a plan that was made
//	    from it is never taken for one of another definition.
//
// A Local without relations costs a transaction nothing but a comparison.
type Local struct {
	schema *catalog.Schema // nil before the first relation
	// relations are those after the last commit; edits those that the open transaction has made, changed or dropped. Both have access
	// control lists too. A descriptor no longer changes once the statement that made it is over.
	relations, edits map[catalog.ID]*Descriptor
	// fresh are the edits of the running statement, which it may change in place.
	fresh      map[catalog.ID]bool
	next       catalog.ID
	version    uint64
	generation uint64
	stats      map[catalog.ID]*catalog.Statistics
	// learnt is the snapshot from which the columns' types were taken.
	learnt *Snapshot
	// Rows, if not nil, estimates the rows of a table's primary index, for tables that were not analyzed.
	Rows func(*catalog.Table) int64
	// counters are the positions of the temporary sequences that were used.
	counters map[localCounter]position
}

// localCounter is one counter of a sequence (catalog.Sequence.Counter).
type localCounter struct{ seq, counter catalog.ID }

func localCounterOf(seq *catalog.Table) localCounter {
	return localCounter{seq.ID, seq.Sequence.Counter}
}

// maxLocal bounds the descriptors of a Local: as many as there may be tables in most schemas. Chosen by us.
const maxLocal = 10_000

// LocalMark is a state of a Local, for savepoints.
type LocalMark struct {
	edits map[catalog.ID]*Descriptor
}

// Empty reports whether there is nothing, so that no name can mean a temporary relation.
func (l *Local) Empty() bool { return l == nil || len(l.relations)+len(l.edits) == 0 }

// Generation changes with every change, and is never the same again; zero while there is nothing.
func (l *Local) Generation() uint64 {
	if l.Empty() {
		return 0
	}
	return l.generation
}

// Schema is the schema of the session's temporary relations; nil before there was one.
func (l *Local) Schema() *catalog.Schema {
	if l == nil {
		return nil
	}
	return l.schema
}

// Open makes the schema, named after the session, if there is none yet.
func (l *Local) Open(session int32, database catalog.ID, owner string) *catalog.Schema {
	if l.schema == nil {
		l.schema = &catalog.Schema{ID: l.newID(), Version: 1, Name: "pg_temp_" + strconv.Itoa(int(session)), Database: database, Owner: owner}
	}
	return l.schema
}

func (l *Local) newID() catalog.ID {
	l.next++
	return catalog.FirstLocalID + l.next
}

// NewID hands out the identity of a new relation.
func (l *Local) NewID() (catalog.ID, error) {
	if len(l.relations)+len(l.edits) >= maxLocal || l.next >= catalog.LastLocalID-catalog.FirstLocalID {
		return 0, sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many temporary relations").WithDetail("The limit is %d.", maxLocal)
	}
	return l.newID(), nil
}

// Step ends a statement: descriptors that it has changed no longer change (lease.LC3).
func (l *Local) Step() { l.fresh = nil }

// Mark remembers the present state.
func (l *Local) Mark() LocalMark {
	l.Step()
	return LocalMark{maps.Clone(l.edits)}
}

// RollbackTo undoes the changes since a mark, which stays usable.
func (l *Local) RollbackTo(m LocalMark) {
	l.edits, l.fresh = maps.Clone(m.edits), nil
	l.generation++
}

// Commit makes the changes those of the session.
func (l *Local) Commit() {
	l.settleTypes()
	for id, d := range l.edits {
		if d.dropped() {
			delete(l.relations, id)
			delete(l.stats, id)
			maps.DeleteFunc(l.counters, func(c localCounter, _ position) bool { return c.seq == id })
			continue
		}
		if l.relations == nil {
			l.relations = map[catalog.ID]*Descriptor{}
		}
		l.relations[id] = d
	}
	l.edits, l.fresh = nil, nil
}

// settleTypes makes public the values that the transaction has added to types: no other session uses the types.
func (l *Local) settleTypes() {
	for _, t := range l.types() {
		to, some := t.Enum.Settled(types.ValueUnsafe, types.ValuePublic)
		if !some {
			continue
		}
		l.mutable(t.ID).Type.Enum = *to
		l.Retype(to)
	}
}

// Retype gives the columns of an enum another version of it.
func (l *Local) Retype(e *types.Enum) {
	l.Each(func(t *catalog.Table) {
		if t.UsesEnum(e) {
			l.mutable(t.ID).Table.SetEnum(e)
		}
	})
}

// Rollback undoes the transaction's changes.
func (l *Local) Rollback() {
	if len(l.edits) > 0 {
		l.generation++
	}
	l.edits, l.fresh = nil, nil
}

// Changed reports whether the open transaction has changed anything.
func (l *Local) Changed() bool { return l != nil && len(l.edits) > 0 }

// Forget removes everything, at the end of the session.
func (l *Local) Forget() {
	l.relations, l.edits, l.fresh, l.stats, l.counters = nil, nil, nil, nil, nil
	l.generation++
}

// descriptor is a descriptor as the transaction sees it; nil if there is none.
func (l *Local) descriptor(id catalog.ID) *Descriptor {
	if l == nil {
		return nil
	}
	if d, ok := l.edits[id]; ok {
		return d
	}
	if d, ok := l.relations[id]; ok {
		return d
	}
	if l.schema != nil && l.schema.ID == id {
		return &Descriptor{Schema: l.schema}
	}
	return nil
}

func (l *Local) versionOf(id catalog.ID) uint64 {
	if d := l.descriptor(id); d != nil && !d.dropped() {
		return d.Version()
	}
	return 0
}

// put adds or replaces a descriptor.
func (l *Local) put(d *Descriptor) *Descriptor {
	l.version++
	*d.version() = l.version
	if l.edits == nil {
		l.edits = map[catalog.ID]*Descriptor{}
	}
	if l.fresh == nil {
		l.fresh = map[catalog.ID]bool{}
	}
	l.edits[d.ID()], l.fresh[d.ID()] = d, true
	l.generation++
	return d
}

// mutable is a descriptor that the running statement may change in place; nil if there is none.
func (l *Local) mutable(id catalog.ID) *Descriptor {
	d := l.descriptor(id)
	if d == nil || d.Schema != nil || l.fresh[id] {
		return d
	}
	return l.put(d.clone())
}

// Each calls f for each relation that the transaction sees, in the order of identities.
func (l *Local) Each(f func(*catalog.Table)) {
	if l.Empty() {
		return
	}
	ids := slices.Collect(maps.Keys(l.relations))
	for id := range l.edits {
		if _, known := l.relations[id]; !known {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if d := l.descriptor(id); d.Table != nil && !d.dropped() {
			f(d.Table)
		}
	}
}

// types are the types that the transaction sees, in the order of identities.
func (l *Local) types() (out []*catalog.Type) {
	if l.Empty() {
		return nil
	}
	for id, d := range l.relations {
		if _, edited := l.edits[id]; !edited && d.Type != nil {
			out = append(out, d.Type)
		}
	}
	for _, d := range l.edits {
		if d.Type != nil && !d.dropped() {
			out = append(out, d.Type)
		}
	}
	slices.SortFunc(out, func(a, b *catalog.Type) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// HasTypes reports whether the session has types of its own.
func (l *Local) HasTypes() bool { return len(l.types()) > 0 }

// typeNamed is the type of a name; nil if there is none.
func (l *Local) typeNamed(name string) *catalog.Type {
	for _, t := range l.types() {
		if t.Enum.Name == name {
			return t
		}
	}
	return nil
}

// isName reports whether a schema's name means the schema of temporary relations.
func (l *Local) isName(schema string) bool {
	return schema == catalog.TemporarySchema || l.schema != nil && l.schema.Name == schema
}

// named finds the relation that has a name, or has an index of that name.
func (l *Local) named(name string) *Descriptor {
	if l.Empty() || l.schema == nil {
		return nil
	}
	for id := range l.edits {
		if d := l.edits[id]; d.Table != nil && slices.Contains(d.names(), nameKey{l.schema.Database, l.schema.ID, name}) {
			return d
		}
	}
	for id, d := range l.relations {
		if _, edited := l.edits[id]; !edited && d.Table != nil && slices.Contains(d.names(), nameKey{l.schema.Database, l.schema.ID, name}) {
			return d
		}
	}
	return nil
}

// tableNamed is the relation of a name, no index.
func (l *Local) tableNamed(name string) *catalog.Table {
	if d := l.named(name); d != nil && d.Table.Name == name {
		return d.Table
	}
	return nil
}

// SetStatistics keeps what ANALYZE has found of a temporary table.
func (l *Local) SetStatistics(id catalog.ID, s *catalog.Statistics) {
	if l.stats == nil {
		l.stats = map[catalog.ID]*catalog.Statistics{}
	}
	l.stats[id] = s
	l.generation++
}

// statistics are those of a temporary table: what ANALYZE has found, or how many rows there are, or nothing.
func (l *Local) statistics(id catalog.ID) *catalog.Statistics {
	if s := l.stats[id]; s != nil || l.Rows == nil {
		return s
	}
	d := l.descriptor(id)
	if d == nil || d.Table == nil || d.Table.Kind != catalog.KindTable {
		return nil
	}
	n := l.Rows(d.Table)
	if n == 0 {
		return nil // a plan that is made before the rows are written should not assume that there are none
	}
	return &catalog.Statistics{Rows: n}
}

// SetLocal gives the transaction the session's own part of the catalogue, whose commit and rollback are the caller's.
func (t *Txn) SetLocal(l *Local) {
	t.local = l
	if !l.Empty() {
		l.learn(t.m.snap.Load())
	}
}

// learn gives columns of enums the versions of the enums that the node knows, since other sessions change the types without knowing of
// the columns. It is called between transactions.
func (l *Local) learn(s *Snapshot) {
	if l.learnt == s {
		return
	}
	l.learnt = s
	for id, d := range l.relations {
		if d.Table == nil {
			continue
		}
		var now []*types.Enum
		for i := range d.Table.Columns {
			t := d.Table.Columns[i].Type
			if t.Kind == types.KindArray && t.Elem != nil {
				t = t.Elem
			}
			if t.Kind != types.KindEnum {
				continue
			}
			if e := s.descriptor(catalog.ID(t.Enum.ID)); e != nil && e.Type != nil && !e.dropped() && !slices.Equal(e.Type.Enum.Values, t.Enum.Values) {
				now = append(now, &e.Type.Enum)
			}
		}
		if len(now) == 0 {
			continue
		}
		c := d.clone()
		for _, e := range now {
			c.Table.SetEnum(e)
		}
		l.version++
		*c.version() = l.version
		l.relations[id] = c
		l.generation++
	}
}

// Local is the session's own part of the catalogue; nil if SetLocal was not called.
func (t *Txn) Local() *Local { return t.local }

// position is how far a temporary sequence is: its last value, and whether that has been handed out.
type position struct {
	last   int64
	called bool
}

// NextVal takes the next number of a temporary sequence. As in PostgreSQL no rollback takes it back.
func (l *Local) NextVal(seq *catalog.Table) (int64, error) {
	d := seq.Sequence
	c, used := l.counters[localCounterOf(seq)]
	v := d.Base + d.Increment
	switch {
	case used && !c.called:
		v = c.last
	case used && d.Increment > 0 && c.last > d.Max-d.Increment, used && d.Increment < 0 && c.last < d.Min-d.Increment:
		bound, word := d.Max, "maximum"
		if v = d.Min; d.Increment < 0 {
			bound, word, v = d.Min, "minimum", d.Max
		}
		if !d.Cycle {
			return 0, sqlstate.New("2200H", "nextval: reached %s value of sequence \"%s\" (%d)", word, seq.Name, bound)
		}
	case used:
		v = c.last + d.Increment
	}
	l.SetVal(seq, v, true)
	return v, nil
}

// SetVal makes a temporary sequence go on from a value: after it if called, else with it.
func (l *Local) SetVal(seq *catalog.Table, v int64, called bool) {
	if l.counters == nil {
		l.counters = map[localCounter]position{}
	}
	l.counters[localCounterOf(seq)] = position{v, called}
}

// LastValue is the last value of a temporary sequence, and whether it has been handed out.
func (l *Local) LastValue(seq *catalog.Table) (v int64, called bool) {
	if c, used := l.counters[localCounterOf(seq)]; used {
		return c.last, c.called
	}
	return seq.Sequence.Base + seq.Sequence.Increment, false
}

// DropAtCommit drops the tables with ON COMMIT DROP, and what depends on them.
func (l *Local) DropAtCommit() {
	l.drop(func(t *catalog.Table) bool { return t.OnCommit == catalog.DropTable })
}

// DropAll drops every relation.
func (l *Local) DropAll() {
	l.drop(func(*catalog.Table) bool { return true })
	for _, t := range l.types() {
		l.mutable(t.ID).Type.Dropped = true
	}
	l.Step()
}

// drop drops the relations for which which returns true, their sequences, and the views and foreign keys that depend on
// them.
func (l *Local) drop(which func(*catalog.Table) bool) {
	going := map[catalog.ID]bool{}
	l.Each(func(t *catalog.Table) {
		if which(t) {
			going[t.ID] = true
		}
	})
	for more := len(going) > 0; more; {
		more = false
		l.Each(func(t *catalog.Table) {
			depends := t.Sequence != nil && going[t.Sequence.OwnerTable] ||
				t.Kind == catalog.KindView && slices.ContainsFunc(t.DependsOn, func(id catalog.ID) bool { return going[id] })
			if depends && !going[t.ID] {
				going[t.ID], more = true, true
			}
		})
	}
	for id := range going {
		l.mutable(id).Table.Dropped = true
	}
	if len(going) == 0 {
		return
	}
	l.Each(func(t *catalog.Table) {
		gone := func(id catalog.ID) bool { return going[id] }
		if !slices.ContainsFunc(t.Foreign, func(k catalog.ForeignKey) bool { return gone(k.RefTable) }) &&
			!slices.ContainsFunc(t.ReferencedBy, func(r catalog.Reference) bool { return gone(r.Table) }) && !slices.ContainsFunc(t.UsedBy, gone) {
			return
		}
		t = l.mutable(t.ID).Table
		t.Foreign = slices.DeleteFunc(t.Foreign, func(k catalog.ForeignKey) bool { return gone(k.RefTable) })
		t.ReferencedBy = slices.DeleteFunc(t.ReferencedBy, func(r catalog.Reference) bool { return gone(r.Table) })
		t.UsedBy = slices.DeleteFunc(t.UsedBy, gone)
	})
	l.Step()
}
