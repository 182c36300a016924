package catalog

// Identities of the template databases. They have no descriptors, and nothing stored refers to them.
const (
	template0Database ID = 98
	template1Database ID = 99
)

// IsTemplate reports whether a database is one of PostgreSQL's template databases. They are in every cluster and have no objects; nothing can be made
// in them, and they can't be changed or dropped. A new database begins empty, which is what a copy of either of them would be.
func (d *Database) IsTemplate() bool { return d.ID == template0Database || d.ID == template1Database }

// AllowsConnections reports whether sessions of a database can be opened.
func (d *Database) AllowsConnections() bool { return d.ID != template0Database }

// Template is the template database of a name; nil if there is none.
func Template(name string) *Database {
	switch name {
	case "template0":
		return &Database{ID: template0Database, Version: 1, Name: name, Owner: "root", Comment: "unmodifiable empty database"}
	case "template1":
		return &Database{ID: template1Database, Version: 1, Name: name, Owner: "root", Comment: "default template for new databases"}
	}
	return nil
}

// WithTemplates adds the template databases to all stored ones. A stored database whose name is that of a template, which an earlier release let a user
// make, stands in its place.
func WithTemplates(stored []*Database) []*Database {
	out := stored[:len(stored):len(stored)]
	for _, name := range [...]string{"template1", "template0"} {
		taken := false
		for _, d := range stored {
			taken = taken || d.Name == name
		}
		if !taken {
			out = append(out, Template(name))
		}
	}
	return out
}

// templateByID is the template database of an identity; nil if there is none.
func templateByID(id ID) *Database {
	switch id {
	case template0Database:
		return Template("template0")
	case template1Database:
		return Template("template1")
	}
	return nil
}

// TemplateObject is a template database as rights are decided on it: every role may connect to template1, and its owner to both.
func TemplateObject(id ID) (Object, bool) {
	d := templateByID(id)
	if d == nil {
		return Object{}, false
	}
	o := Object{ID: id, Class: ClassDatabase, Kind: "database", Name: d.Name, Owner: d.Owner, DatabaseOwner: d.Owner}
	return NewObject(o, &ACL{Object: id, Grants: []Grant{
		{Role: PublicRole, Grantor: d.Owner, Privileges: Connect},
		{Role: d.Owner, Grantor: d.Owner, Privileges: o.Class.All()},
	}}), true
}
