package bind

import (
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
)

// findings are the properties of a statement that binding determines in addition to its tree: its dependencies, the rights that it needs, whether
// it writes or locks, and the time at which it reads.
type findings struct {
	depends []opt.Dependency
	seen    map[catalog.ID]bool // in depends
	access  []Access
	asOf    scalar.Expr
	writes  bool
	locks   bool
	locking string // the first locking clause, as "FOR UPDATE"
}

// dependsOn records a descriptor that the statement was bound against.
func (f *findings) dependsOn(id catalog.ID, version uint64) {
	if f.seen[id] {
		return
	}
	if f.seen == nil {
		f.seen = make(map[catalog.ID]bool, 4)
	}
	f.seen[id] = true
	f.depends = append(f.depends, opt.Dependency{ID: id, Version: version})
}

// uses records a relation that the statement was bound against. The descriptors of virtual relations do not change.
func (f *findings) uses(t *catalog.Table) {
	if t.Kind != catalog.KindVirtual {
		f.dependsOn(t.ID, t.Version)
	}
}

// needAs records rights on a relation that a role needs for the statement; empty: the role that runs it. Every role may read virtual relations.
func (f *findings) needAs(t *catalog.Table, as string, p catalog.Privileges) {
	if t.Kind == catalog.KindVirtual {
		return
	}
	for i := range f.access {
		if a := &f.access[i]; a.Table == t && a.As == as {
			a.Privileges |= p
			return
		}
	}
	f.access = append(f.access, Access{Table: t, As: as, Privileges: p})
}

// need records rights that the text that is bound now needs on a relation.
func (b *builder) need(t *catalog.Table, p catalog.Privileges) { b.needAs(t, b.as, p) }

// reads notes that the statement's own text reads a column of the relation r. If the statement changes r, that needs SELECT in addition to the right
// to change it; reads of stored expressions, such as checks, need no right.
func (b *builder) reads(r *relation) {
	if r != nil && r.target != nil && b.home == nil {
		b.need(r.target, catalog.Select)
	}
}
