package schemachange

import (
	"slices"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// mustOwnToDrop is mustOwn for DROP, which the owner of the schema may do as well.
func (c *change) mustOwnToDrop(t *catalog.Table) error {
	a := c.view.Access()
	if o, ok := a.Object(t.Schema); ok && a.Owns(c.Info.User, &o) {
		return nil
	}
	return c.mustOwn(t.ID)
}

// mayGive finds the role that an object is to be given to, and refuses a user who may not do that; the user owns the object.
// container is the schema of a relation, or the database of a schema.
func (c *change) mayGive(o *catalog.Object, to string, container catalog.ID) (string, error) {
	u, err := c.role(to)
	if err != nil {
		return "", err
	}
	if u.Name == o.Owner || c.super() {
		return u.Name, nil
	}
	a := c.view.Access()
	if err := c.mustBeMember(u.Name, o.DatabaseOwner); err != nil {
		return "", err
	}
	switch o.Class {
	case catalog.ClassDatabase:
		if !c.user().CreateDB {
			return "", denied("permission denied to change owner of database")
		}
	case catalog.ClassSchema:
		err = c.must(container, catalog.Create)
	default:
		// The new owner has to be able to create it.
		err = a.Check(u.Name, container, catalog.Create)
	}
	return u.Name, err
}

func (c *change) mustBeMember(role, databaseOwner string) error {
	if !c.view.Access().Member(c.Info.User, role, databaseOwner) {
		return denied("must be member of role \"%s\"", role)
	}
	return nil
}

// give makes a role the owner of an object, in the former owner's place as holder and grantor of rights.
func (c *change) give(id catalog.ID, to string) {
	o, ok := c.view.Access().Object(id)
	if !ok || o.Owner == to {
		return
	}
	switch o.Class {
	case catalog.ClassDatabase:
		c.Catalog.Database(id).Owner = to
	case catalog.ClassSchema:
		c.Catalog.Schema(id).Owner = to
	case catalog.ClassType:
		c.Catalog.Type(id).Owner = to
	default:
		t := c.Catalog.Table(id)
		t.Owner = to
		for _, s := range c.ownedSequences(t) {
			c.give(s, to)
		}
	}
	if !o.Unlisted {
		o.Grants = catalog.Transferred(o.Grants, o.Owner, to)
		c.Catalog.SetGrants(&o)
	}
}

// ownedSequences are those that columns of a table own.
func (c *change) ownedSequences(t *catalog.Table) (out []catalog.ID) {
	if t.Kind != catalog.KindTable {
		return nil
	}
	all, err := c.view.Tables(c.ctx, c.databaseName(t.Database))
	if err != nil {
		return nil
	}
	for _, s := range all {
		if s.Kind == catalog.KindSequence && s.Sequence.OwnerTable == t.ID {
			out = append(out, s.ID)
		}
	}
	return out
}

// ownerTo is ALTER TABLE ... OWNER TO, and of views and sequences.
func (c *change) ownerTo(t *catalog.Table, owner string) error {
	o, _ := c.view.Access().Object(t.ID)
	to, err := c.mayGive(&o, owner, t.Schema)
	if err != nil {
		return err
	}
	if t.Kind == catalog.KindSequence && t.Sequence.OwnerTable != 0 && to != t.Owner {
		name := ""
		if of := c.current(t.Sequence.OwnerTable); of != nil {
			name = of.Name
		}
		return sqlstate.New(sqlstate.FeatureNotSupported, "cannot change owner of sequence \"%s\"", t.Name).
			WithDetail("Sequence \"%s\" is linked to table \"%s\".", t.Name, name)
	}
	c.give(t.ID, to)
	return nil
}

// rolesToAct resolves the roles of REASSIGN OWNED and DROP OWNED; the user needs the rights of all of them.
func (c *change) rolesToAct(names []string, verb, pinned string) ([]string, error) {
	var out []string
	for _, n := range names {
		u, err := c.role(n)
		if err != nil {
			return nil, err
		}
		if !c.view.Access().Has(c.Info.User, u.Name, "") {
			return nil, denied("permission denied to %s objects", verb)
		}
		if u.ID < catalog.FirstUserID && u.Name != "postgres" {
			return nil, sqlstate.New(sqlstate.DependentObjectsExist, "cannot %s owned by role %s because they are required by the database system", pinned, u.Name)
		}
		out = append(out, u.Name)
	}
	return out, nil
}

// here reports whether a statement that names roles acts on an object: those of the current database, and databases.
func (c *change) here(b *belonging) bool { return b.database == "" || b.database == c.Info.Database }

// reassignOwned is REASSIGN OWNED BY.
func (c *change) reassignOwned(s *bind.ReassignOwned) error {
	from, err := c.rolesToAct(s.Roles, "reassign", "reassign ownership of objects")
	if err != nil {
		return err
	}
	to, err := c.role(s.To)
	if err != nil {
		return err
	}
	if !c.view.Access().Has(c.Info.User, to.Name, "") {
		return denied("permission denied to reassign objects")
	}
	c.hook()
	for _, role := range from {
		all, err := c.belongings(role)
		if err != nil {
			return err
		}
		for i := range all {
			if b := &all[i]; b.owned && c.here(b) {
				c.give(b.object.ID, to.Name)
			}
		}
	}
	return nil
}

// dropOwned is DROP OWNED BY: it drops the roles' objects in the current database, and revokes their rights on all
// others.
func (c *change) dropOwned(s *bind.DropOwned) error {
	roles, err := c.rolesToAct(s.Roles, "drop", "drop objects")
	if err != nil {
		return err
	}
	c.hook()
	going := map[catalog.ID]bool{}
	var tables []*catalog.Table
	var schemas []*catalog.Schema
	var enums []*catalog.Type
	take := func(t *catalog.Table) {
		if !going[t.ID] {
			going[t.ID] = true
			tables = append(tables, t)
		}
	}
	for _, role := range roles {
		all, err := c.belongings(role)
		if err != nil {
			return err
		}
		for i := range all {
			b := &all[i]
			switch {
			case !c.here(b):
			case b.owned && b.table != nil:
				take(b.table)
			case b.owned && b.schema != nil:
				schemas = append(schemas, b.schema)
			case b.owned && b.enum != nil && c.refuseRegionEnum(b.enum, "dropped") != nil: // it belongs to the database, which stays
			case b.owned && b.enum != nil:
				enums = append(enums, b.enum)
			case !b.owned:
				c.forget(&b.object, role)
			}
		}
	}
	what := "desired object(s)"
	if len(tables)+len(schemas)+len(enums) == 1 {
		switch {
		case len(tables) == 1:
			what = described(tables[0]) + " " + c.name(tables[0])
		case len(schemas) == 1:
			what = "schema " + schemas[0].Name
		default:
			what = "type " + c.typeName(enums[0])
		}
	}
	var deps []dependent
	for _, sc := range schemas {
		inside, err := c.view.Tables(c.ctx, c.Info.Database)
		if err != nil {
			return err
		}
		for _, t := range inside {
			if t.Schema == sc.ID && !going[t.ID] && !(t.Kind == catalog.KindSequence && t.Sequence.OwnerTable != 0) {
				going[t.ID] = true
				deps = append(deps, dependent{described(t) + " " + c.name(t), "schema " + sc.Name, func() error { c.drop(t.ID); return nil }})
				tables = append(tables, t)
			}
		}
	}
	for _, sc := range schemas {
		inside, err := c.typesIn(sc)
		if err != nil {
			return err
		}
		for _, t := range inside {
			if err := c.refuseRegionEnum(t, "dropped"); err != nil {
				return err
			}
			if !slices.ContainsFunc(enums, func(o *catalog.Type) bool { return o.ID == t.ID }) {
				enums = append(enums, t)
				deps = append(deps, dependent{"type " + c.typeName(t), "schema " + sc.Name, func() error { return nil }})
			}
		}
	}
	for _, t := range slices.Clone(tables) {
		c.dependents(t, going, &deps)
	}
	uses, err := c.typeDependents(enums, going)
	if err != nil {
		return err
	}
	every := slices.Concat(deps, plain(uses))
	if len(every) > 0 && !s.Cascade {
		return inTheWay(what, every)
	}
	c.noticeCascade(every)
	for _, d := range deps {
		if err := d.drop(); err != nil {
			return err
		}
	}
	if err := c.dropDependents(uses); err != nil {
		return err
	}
	for _, t := range enums {
		c.dropType(t.ID)
	}
	for _, t := range tables {
		c.disown(t)
		c.drop(t.ID)
	}
	for _, sc := range schemas {
		c.Catalog.Schema(sc.ID).Dropped = true
	}
	return nil
}

// forget revokes all rights of a role on an object, and those that it granted to others.
func (c *change) forget(o *catalog.Object, role string) {
	a := c.view.Access()
	for {
		i := slices.IndexFunc(o.Grants, func(g catalog.Grant) bool { return g.Role == role || g.Grantor == role })
		if i < 0 {
			break
		}
		g := o.Grants[i]
		if a.Revoke(o, catalog.Grant{Role: g.Role, Grantor: g.Grantor, Privileges: g.Privileges, Options: g.Options}, true) != nil {
			return
		}
	}
	c.Catalog.SetGrants(o)
}
