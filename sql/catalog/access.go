package catalog

import (
	"slices"

	"meridian/sql/sqlstate"
)

// Object is what rights are on, as of one moment.
type Object struct {
	ID    ID
	Class Class
	// Kind and Name are for messages: table, view, sequence, schema, database.
	Kind, Name string
	Owner      string
	// DatabaseOwner owns the database that the object is in.
	DatabaseOwner string
	// Grants are all rights that were granted, the owner's own included. Unlisted says that nothing was granted or revoked
	// yet: Grants are the rights that every object of the class begins with.
	Grants   []Grant
	Unlisted bool
}

// NewObject makes an object; a nil list stands for the rights that every object of the class begins with.
func NewObject(o Object, list *ACL) Object {
	if list != nil && !list.Dropped && !list.Default {
		o.Grants = list.Grants
		return o
	}
	o.Unlisted = true
	o.Grants = []Grant{{Role: o.Owner, Grantor: o.Owner, Privileges: o.Class.All()}}
	if p := o.Class.public(); p != 0 {
		o.Grants = []Grant{{Role: PublicRole, Grantor: o.Owner, Privileges: p}, o.Grants[0]}
	}
	return o
}

// Access answers who may do what: the roles, and rights on objects, as of one moment. It is the only place where that is
// decided.
type Access struct {
	*Roles
	object func(ID) (Object, bool)
}

// NewAccess makes an Access of roles and of a function that finds objects.
func NewAccess(r *Roles, object func(ID) (Object, bool)) *Access { return &Access{r, object} }

// Object finds a database, a schema or a relation by identity.
func (a *Access) Object(id ID) (Object, bool) {
	if a.object == nil {
		return Object{}, false
	}
	return a.object(id)
}

// Rights are the rights that a role has on an object, and those of them that it may grant to others: its own, those of
// roles that it is a member of and whose rights it inherits, and those of PUBLIC. Ownership alone gives only the right to
// grant: an owner has the rights that the list gives it, and may add itself to the list.
func (a *Access) Rights(role string, o *Object) (has, options Privileges) {
	all := o.Class.All()
	if a.Superuser(role) {
		return all, all
	}
	roles := a.Inherited(role, o.DatabaseOwner)
	has, options = listed(roles, o)
	reads, writes := slices.Contains(roles, ReadAllData), slices.Contains(roles, WriteAllData)
	switch o.Class {
	case ClassTable, ClassSequence:
		if reads {
			has |= Select & all
		}
		if writes {
			has |= (Insert | Update | Delete) & all
		}
	case ClassSchema:
		if reads || writes {
			has |= Usage
		}
	}
	return has, options
}

// listed are the rights that an object's list and its ownership give to some roles together.
func listed(roles []string, o *Object) (has, options Privileges) {
	if slices.Contains(roles, o.Owner) {
		options = o.Class.All()
	}
	for i := range o.Grants {
		if g := &o.Grants[i]; g.Role == PublicRole || slices.Contains(roles, g.Role) {
			has |= g.Privileges
			options |= g.Options
		}
	}
	return has, options
}

// May reports whether a role has all of some rights on an object. Nobody has rights on an object that does not exist.
func (a *Access) May(role string, id ID, p Privileges) bool {
	o, ok := a.Object(id)
	if !ok {
		return false
	}
	has, _ := a.Rights(role, &o)
	return has&p == p
}

// Owns reports whether a role has the rights of an object's owner.
func (a *Access) Owns(role string, o *Object) bool { return a.Has(role, o.Owner, o.DatabaseOwner) }

// Check refuses a role that lacks one of some rights on an object. An object that is gone is not refused.
func (a *Access) Check(role string, id ID, p Privileges) error {
	o, ok := a.Object(id)
	if !ok {
		return nil
	}
	if has, _ := a.Rights(role, &o); has&p == p {
		return nil
	}
	return o.Denied()
}

// CheckOwner refuses a role that does not own an object.
func (a *Access) CheckOwner(role string, id ID) error {
	if o, ok := a.Object(id); ok && !a.Owns(role, &o) {
		return o.NotOwner()
	}
	return nil
}

// Denied is the error of a role that lacks a right on the object.
func (o *Object) Denied() error {
	return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for %s %s", o.Kind, o.Name)
}

// NotOwner is the error of a role that would have to own the object.
func (o *Object) NotOwner() error {
	return sqlstate.New(sqlstate.InsufficientPrivilege, "must be owner of %s %s", o.Kind, o.Name)
}

// Grantor chooses the role in whose name another grants or revokes rights on an object, and says which of them that role
// may grant: the owner if the role has its rights, else the one of its roles that may grant the most.
func (a *Access) Grantor(role string, o *Object, p Privileges) (grantor string, options Privileges) {
	roles := a.Inherited(role, o.DatabaseOwner)
	if a.Superuser(role) || slices.Contains(roles, o.Owner) {
		return o.Owner, p
	}
	grantor, most := role, 0
	for _, name := range roles {
		var own Privileges
		for i := range o.Grants {
			if o.Grants[i].Role == name {
				own |= o.Grants[i].Options & p
			}
		}
		if own == p {
			return name, own
		}
		n := 0
		own.Each(func(Privileges) { n++ })
		if n > most {
			grantor, options, most = name, own, n
		}
	}
	return grantor, options
}

// Grant adds rights to an object's list.
func (a *Access) Grant(o *Object, g Grant) error {
	if g.Options != 0 && g.Grantor != o.Owner {
		// Without the grantee's options, and all grants that derive from them, the grantor must still have its own option.
		c := *o
		c.Grants = slices.Clone(o.Grants)
		for again := true; again; {
			again = false
			for _, x := range c.Grants {
				if x.Role == g.Role && x.Options != 0 {
					if err := a.take(&c, Grant{Role: x.Role, Grantor: x.Grantor, Options: x.Options}, true); err != nil {
						return err
					}
					again = true
					break
				}
			}
		}
		if _, options := listed(a.Inherited(g.Grantor, o.DatabaseOwner), &c); g.Options&^options != 0 {
			return sqlstate.New(sqlstate.InvalidGrantOperation, "grant options cannot be granted back to your own grantor")
		}
	}
	list := slices.Clone(o.Grants)
	i := slices.IndexFunc(list, func(x Grant) bool { return x.Role == g.Role && x.Grantor == g.Grantor })
	if i < 0 {
		i, list = len(list), append(list, Grant{Role: g.Role, Grantor: g.Grantor})
	}
	list[i].Privileges |= g.Privileges
	list[i].Options |= g.Options
	if list[i].Privileges == 0 {
		return nil
	}
	o.Grants, o.Unlisted = list, false
	return nil
}

// Revoke removes rights from an object's list and, with cascade, the grants that their holder has made of them. The
// rights in g.Privileges go with their grant options; of those in g.Options alone, only the options go.
func (a *Access) Revoke(o *Object, g Grant, cascade bool) error {
	g.Options |= g.Privileges
	o.Unlisted = false
	return a.take(o, g, cascade)
}

func (a *Access) take(o *Object, g Grant, cascade bool) error {
	i := slices.IndexFunc(o.Grants, func(x Grant) bool { return x.Role == g.Role && x.Grantor == g.Grantor })
	if i < 0 {
		return nil
	}
	list := slices.Clone(o.Grants)
	lost := list[i].Options & g.Options
	list[i].Privileges &^= g.Privileges
	list[i].Options &^= g.Options
	if list[i].Privileges == 0 {
		list = slices.Delete(list, i, i+1)
	}
	o.Grants = list
	if lost == 0 || g.Role == o.Owner {
		return nil // the owner can always grant
	}
	_, still := listed(a.Inherited(g.Role, o.DatabaseOwner), o)
	if lost &^= still; lost == 0 {
		return nil
	}
	for {
		i := slices.IndexFunc(o.Grants, func(x Grant) bool { return x.Grantor == g.Role && (x.Privileges|x.Options)&lost != 0 })
		if i < 0 {
			return nil
		}
		if !cascade {
			return sqlstate.New(sqlstate.DependentObjectsExist, "dependent privileges exist").
				WithHint("Use CASCADE to revoke them too.")
		}
		x := o.Grants[i]
		if err := a.take(o, Grant{Role: x.Role, Grantor: x.Grantor, Privileges: lost, Options: lost}, true); err != nil {
			return err
		}
	}
}

// Transferred is an object's list after a change of its owner: the new owner takes the old one's place as holder and as
// grantor of rights.
func Transferred(list []Grant, from, to string) []Grant {
	var out []Grant
	for _, g := range list {
		if g.Role == from {
			g.Role = to
		}
		if g.Grantor == from {
			g.Grantor = to
		}
		if i := slices.IndexFunc(out, func(x Grant) bool { return x.Role == g.Role && x.Grantor == g.Grantor }); i >= 0 {
			out[i].Privileges |= g.Privileges
			out[i].Options |= g.Options
			continue
		}
		out = append(out, g)
	}
	return out
}
