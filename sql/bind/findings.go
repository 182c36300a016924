package bind

import (
	"meridian/sql/catalog"
	"meridian/sql/opt"
)

// depends records a relation that the statement was bound against.
func (b *builder) depends(t *catalog.Table) {
	if t.Kind == catalog.KindVirtual {
		return
	}
	if _, ok := b.deps[t.ID]; ok {
		return
	}
	if b.deps == nil {
		b.deps = make(map[catalog.ID]struct{}, 4)
	}
	b.deps[t.ID] = struct{}{}
	b.meta.Depends = append(b.meta.Depends, opt.Dependency{ID: t.ID, Version: t.Version})
}

// need notes rights that the statement needs on a relation: the current role, or in a view the role that the view reads as.
func (b *builder) need(t *catalog.Table, p catalog.Privileges) { b.needAs(t, b.as, p) }

func (b *builder) needAs(t *catalog.Table, as string, p catalog.Privileges) {
	if t.Kind == catalog.KindVirtual {
		return
	}
	for i := range b.access {
		if a := &b.access[i]; a.Table == t && a.As == as {
			a.Privileges |= p
			return
		}
	}
	b.access = append(b.access, Access{Table: t, As: as, Privileges: p})
}

// reads notes that the statement's own text reads a column of the relation r. For the one that it changes that needs a right
// that changing it does not; stored expressions, such as checks, read what they need.
func (b *builder) reads(r *relation) {
	if r != nil && r.target != nil && b.home == nil {
		b.need(r.target, catalog.Select)
	}
}
