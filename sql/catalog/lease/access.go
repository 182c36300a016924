package lease

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
)

// Privileges are decided by the newest roles and access control lists that the node knows, not by those of the transaction's beginning: a
// REVOKE holds for the next statement of every session, and waits for none. So nothing here is noted as used by a transaction (lease.L7).

// Access implements catalog.View.
func (v *View) Access() *catalog.Access {
	t, s := v.t, v.t.m.snap.Load()
	if len(t.edits) == 0 && t.local.Empty() {
		return s.access(v.t.m.o.Relations)
	}
	roles := s.roles
	for _, e := range t.edits {
		if e.now.User != nil {
			all, _ := v.Users(context.Background()) // reads the node's snapshot, and can't fail
			roles = catalog.NewRoles(all)
			break
		}
	}
	return catalog.NewAccess(roles, func(id catalog.ID) (catalog.Object, bool) {
		return object(t.Descriptor, v.t.m.o.Relations, id)
	})
}

// Access answers who may do what, as of the snapshot.
func (m *Manager) Access() *catalog.Access { return m.snap.Load().access(m.o.Relations) }

// AccessGeneration changes whenever a role, an owner or an access control list does. Reading it is one atomic load.
func (m *Manager) AccessGeneration() uint64 { return m.snap.Load().accessGeneration }

func (s *Snapshot) access(r Relations) *catalog.Access {
	return catalog.NewAccess(s.roles, func(id catalog.ID) (catalog.Object, bool) { return object(s.descriptor, r, id) })
}

// object is the part of a descriptor by which rights on its object are decided.
func object(find func(catalog.ID) *Descriptor, r Relations, id catalog.ID) (catalog.Object, bool) {
	if r != nil {
		if t := r.ByID(id); t != nil {
			return catalog.Object{ID: id, Kind: "table", Name: t.Name, Owner: t.Owner,
				Grants: []catalog.Grant{{Role: catalog.PublicRole, Grantor: t.Owner, Privileges: catalog.Select}}}, true
		}
		for name, sid := range r.Schemas() {
			if sid == id {
				return catalog.Object{ID: id, Class: catalog.ClassSchema, Kind: "schema", Name: name, Owner: "root",
					Grants: []catalog.Grant{{Role: catalog.PublicRole, Grantor: "root", Privileges: catalog.Usage}}}, true
			}
		}
	}
	d := find(id)
	if d == nil {
		return catalog.TemplateObject(id)
	}
	if d.dropped() {
		return catalog.Object{}, false
	}
	databaseOwner := func(id catalog.ID) string {
		if d := find(id); d != nil && d.Database != nil {
			return d.Database.Owner
		}
		return ""
	}
	o := catalog.Object{ID: id}
	switch {
	case d.Table != nil:
		t := d.Table
		o.Kind, o.Name, o.Owner, o.DatabaseOwner = "table", t.Name, t.Owner, databaseOwner(t.Database)
		switch t.Kind {
		case catalog.KindTable:
			if t.Materialized {
				o.Kind = "materialized view"
			}
		case catalog.KindView:
			o.Kind = "view"
		case catalog.KindSequence:
			o.Kind, o.Class = "sequence", catalog.ClassSequence
		}
	case d.Schema != nil:
		o.Class, o.Kind, o.Name, o.Owner, o.DatabaseOwner = catalog.ClassSchema, "schema", d.Schema.Name, d.Schema.Owner, databaseOwner(d.Schema.Database)
	case d.Database != nil:
		o.Class, o.Kind, o.Name, o.Owner, o.DatabaseOwner = catalog.ClassDatabase, "database", d.Database.Name, d.Database.Owner, d.Database.Owner
	case d.Type != nil:
		o.Class, o.Kind, o.Name, o.Owner, o.DatabaseOwner = catalog.ClassType, "type", d.Type.Enum.Name, d.Type.Owner, databaseOwner(d.Type.Database)
	default:
		return catalog.Object{}, false
	}
	var list *catalog.ACL
	if d := find(catalog.ACLID(id)); d != nil {
		if list = d.ACL; d.later != nil {
			list = &catalog.ACL{Object: id} // the unknown part might take rights away
		}
	}
	return catalog.NewObject(o, list), true
}

// accessDiffers reports whether rights may depend on the difference of two versions of a descriptor; nil: there is none.
func accessDiffers(old, now *Descriptor) bool {
	switch d := now; {
	case d == nil:
		d = old
		return d.User != nil || d.ACL != nil
	case d.User != nil || d.ACL != nil:
		return true
	case old == nil:
		return false // its rights are those that every new object has
	case d.Table != nil:
		return d.Table.Owner != old.Table.Owner
	case d.Schema != nil:
		return d.Schema.Owner != old.Schema.Owner
	case d.Type != nil:
		return d.Type.Owner != old.Type.Owner
	case d.Database != nil:
		return d.Database.Owner != old.Database.Owner
	}
	return false
}

// ACL is an object's access control list, to be changed in place.
func (t *Txn) ACL(object catalog.ID) *catalog.ACL {
	d := t.mutable(catalog.ACLID(object))
	if d == nil {
		t.New(Descriptor{ACL: &catalog.ACL{Object: object, Default: true}})
		d = t.mutable(catalog.ACLID(object))
	}
	return d.ACL
}

// SetGrants changes the grants on an object.
func (t *Txn) SetGrants(o *catalog.Object) {
	l := t.ACL(o.ID)
	l.Grants, l.Default, l.Dropped = o.Grants, o.Unlisted, false
	if o.Unlisted {
		l.Grants = nil
	}
}

// orphans forgets the access control lists of the objects that the transaction drops.
func (t *Txn) orphans() {
	for _, id := range slices.Clone(t.order) {
		if e := t.edits[id]; e.now.ACL != nil || !e.now.dropped() {
			continue
		}
		if d := t.Descriptor(catalog.ACLID(id)); d != nil && !d.dropped() {
			l := t.ACL(id)
			l.Grants, l.Default, l.Dropped = nil, true, true
		}
	}
}

// mentions are the roles that a descriptor names.
func (d *Descriptor) mentions() []string {
	var out []string
	switch {
	case d == nil || d.dropped():
	case d.Table != nil:
		out = append(out, d.Table.Owner)
	case d.Schema != nil:
		out = append(out, d.Schema.Owner)
	case d.Database != nil:
		out = append(out, d.Database.Owner)
	case d.Type != nil:
		out = append(out, d.Type.Owner)
	case d.ACL != nil:
		for _, g := range d.ACL.Grants {
			out = append(out, g.Role, g.Grantor)
		}
	case d.User != nil:
		for _, m := range d.User.MemberOf {
			out = append(out, m.Role)
		}
	}
	return out
}

// pinRoles keeps objects from naming roles that are gone (lease.L8): a transaction that gives something to a role reads the
// role's descriptor, and one that drops a role reads all descriptors, so that of two such transactions one fails.
func (t *Txn) pinRoles(ctx context.Context) error {
	named, going := map[string]bool{}, map[string]bool{}
	for _, id := range t.order {
		e := t.edits[id]
		old := e.base.mentions()
		for _, r := range e.now.mentions() {
			if !slices.Contains(old, r) {
				named[r] = true
			}
		}
		if u := e.now.User; u != nil && u.Dropped {
			going[u.Name] = true
		}
	}
	s := t.m.snap.Load()
	var ids []catalog.ID
	var ks []keys.Key
	delete(named, catalog.PublicRole)
	for _, e := range t.edits {
		if e.now.User != nil && !e.now.dropped() {
			delete(named, e.now.User.Name) // the transaction itself writes its descriptor
		}
	}
	for r := range named {
		u := s.roles.Role(r)
		if u == nil {
			return errStale("A role was dropped by another transaction.")
		}
		ids, ks = append(ids, u.ID), append(ks, descriptorKey(u.ID))
	}
	if len(ids) > 0 {
		vs, err := t.tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		for i, v := range vs {
			if v != nil {
				d, err := t.m.decode(v)
				if err != nil {
					return err
				}
				if !d.dropped() {
					continue
				}
			}
			t.blocked = append(t.blocked, catalog.Dependency{ID: ids[i]})
		}
	}
	if len(going) > 0 {
		err := scanAll(ctx, t.tx, descriptorSpan(), func(r kv.KeyValue) error {
			d, err := t.m.decode(r.Value)
			if err != nil {
				return err
			}
			if e, ok := t.edits[d.ID()]; ok {
				d = e.now
			}
			if slices.ContainsFunc(d.mentions(), func(n string) bool { return going[n] }) {
				t.blocked = append(t.blocked, catalog.Dependency{ID: d.ID()})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(t.blocked) > 0 {
		return errStale("A role was dropped, or given something, by another transaction.")
	}
	return nil
}

// rolesOf makes the roles of a catalogue.
func (s *Snapshot) rolesOf() *catalog.Roles {
	var all []*catalog.User
	s.each(func(d *Descriptor) {
		if d.User != nil && d.later == nil { // else a restriction of the role might be overlooked
			all = append(all, d.User)
		}
	})
	return catalog.NewRoles(all)
}
