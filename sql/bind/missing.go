package bind

import (
	"slices"
	"strings"

	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// undroppable has the objects of the kinds of parse.DropMissing that exist, and can't be dropped.
var undroppable = map[string][]string{
	"language":           {"internal", "c", "sql", "plpgsql"},
	"access method":      {"btree", "heap"},
	"tablespace":         {"pg_default", "pg_global"},
	"collation":          {"default", "C", "POSIX", "ucs_basic"},
	"extension":          {"plpgsql", "uuid-ossp"},
	"text search parser": {"default"},
}

// dropMissing binds DROP of kinds of which users can't create objects: the error, or the notice, is PostgreSQL's for an object that does not exist.
func (b *builder) dropMissing(n *parse.DropMissing) Statement {
	out := &Noop{Tag: n.Tag}
	if n.On.Name != "" {
		t := b.lookupTable(n.On.Database, n.On.Schema, n.On.Name)
		name, kind := n.Names[0].Name.Name, "table"
		switch {
		case t == nil && n.IfExists:
			out.Notice = "relation \"" + n.On.Name + "\" does not exist, skipping"
			return out
		case t == nil:
			b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", Name{Schema: n.On.Schema, Name: n.On.Name})
		case n.IfExists:
			out.Notice = n.Kind + " \"" + name + "\" for relation \"" + t.Name + "\" does not exist, skipping"
			return out
		case n.Kind == "rule":
			kind = "relation"
		}
		b.fail(sqlstate.UndefinedObject, nil, "%s \"%s\" for %s \"%s\" does not exist", n.Kind, name, kind, t.Name)
	}
	for _, o := range n.Names {
		code, message := b.missing(n.Kind, o, n.IfExists)
		if !n.IfExists {
			b.fail(code, nil, "%s", message)
		}
		if message += ", skipping"; out.Notice == "" {
			out.Notice = message
		} else {
			out.More = append(out.More, message)
		}
	}
	return out
}

// missing returns the code and the message for an object that does not exist. It raises an error for one that exists and can't be dropped.
func (b *builder) missing(kind string, o parse.MissingName, ifExists bool) (sqlstate.Code, string) {
	name := o.Name.String()
	switch kind {
	case "function", "procedure", "routine", "aggregate":
		var args []string
		for _, a := range o.Args {
			f := strings.Fields(a)
			if len(f) > 1 && (strings.EqualFold(f[0], "in") || strings.EqualFold(f[0], "inout") || strings.EqualFold(f[0], "variadic")) {
				f = f[1:]
			}
			a = strings.Join(f, " ")
			if t, ok := types.FromName(a); ok && !ifExists {
				a = t.Name()
			}
			args = append(args, a)
		}
		if o.Name.Schema == "" || o.Name.Schema == "pg_catalog" {
			if len(b.Registry.Functions(o.Name.Name)) > 0 && kind != "procedure" {
				raise(sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop %s %s(%s) because it is required by the database system", kind, o.Name.Name, strings.Join(args, ",")))
			}
		}
		if kind == "routine" {
			kind = "function"
		}
		if !o.HasArgs {
			if ifExists {
				return sqlstate.UndefinedFunction, kind + " " + name + "() does not exist"
			}
			return sqlstate.UndefinedFunction, "could not find a " + kind + " named \"" + name + "\""
		}
		sep := ", "
		if ifExists {
			sep = ","
		}
		return sqlstate.UndefinedFunction, kind + " " + name + "(" + strings.Join(args, sep) + ") does not exist"
	case "collation":
		if !slices.Contains(undroppable[kind], o.Name.Name) {
			return sqlstate.UndefinedObject, "collation \"" + name + "\" for encoding \"UTF8\" does not exist"
		}
	case "foreign table":
		return sqlstate.UndefinedTable, "foreign table \"" + name + "\" does not exist"
	case "type":
		if t, _ := b.View.Table(b.ctx, b.View.CurrentDatabase(), "public", o.Name.Name); t != nil {
			b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a domain", name)
		}
	}
	if slices.Contains(undroppable[kind], o.Name.Name) {
		raise(sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop %s %s because it is required by the database system", kind, o.Name.Name))
	}
	return sqlstate.UndefinedObject, kind + " \"" + name + "\" does not exist"
}
