package bind

import (
	"errors"
	"slices"
	"strings"

	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
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
		known := b.hasSchema(n.On.Schema)
		switch {
		case t == nil && n.IfExists && !known:
			out.Notice = "schema \"" + n.On.Schema + "\" does not exist, skipping"
			return out
		case t == nil && !known:
			b.fail(sqlstate.InvalidSchemaName, nil, "schema \"%s\" does not exist", n.On.Schema)
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
		code, message := b.missingPart(n, o)
		if message == "" {
			code, message = b.missing(n.Kind, n.Method, o, n.IfExists)
		}
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

// missingPart returns the code and the message for a schema, a type or an access method in the name of an object, where that does not exist.
func (b *builder) missingPart(n *parse.DropMissing, o parse.MissingName) (sqlstate.Code, string) {
	if !b.hasSchema(o.Name.Schema) && (n.IfExists || n.Kind != "operator") {
		return sqlstate.InvalidSchemaName, "schema \"" + o.Name.Schema + "\" does not exist"
	}
	switch n.Method {
	case "", "btree", "hash", "gist", "gin", "spgist", "brin":
	default:
		b.fail(sqlstate.UndefinedObject, nil, "access method \"%s\" does not exist", n.Method)
	}
	for _, a := range o.Args {
		if _, code, message := b.argument(a); message != "" {
			return code, message
		}
	}
	return "", ""
}

// argument finds the type of an argument of a function, without its mode and its name; none and * are no types. If there is no such type, it returns the error's code and
// message.
func (b *builder) argument(text string) (shown string, code sqlstate.Code, message string) {
	f := strings.Fields(text)
	for len(f) > 1 && slices.Contains([]string{"in", "out", "inout", "variadic"}, strings.ToLower(f[0])) {
		f = f[1:]
	}
	if text = strings.Join(f, " "); text == "*" || strings.EqualFold(text, "none") {
		return "", "", ""
	}
	t, err := b.TypeNamed(b.ctx, parse.NamedType{Text: text})
	if err != nil && len(f) > 1 { // the first word may be the argument's name
		if u, err2 := b.TypeNamed(b.ctx, parse.NamedType{Text: strings.Join(f[1:], " ")}); err2 == nil {
			t, err = u, nil
		}
	}
	var e *sqlstate.Error
	switch {
	case err == nil:
		return t.Name(), "", ""
	case !errors.As(err, &e) || e.Code != sqlstate.UndefinedObject && e.Code != sqlstate.InvalidSchemaName:
		return text, "", "" // a type that is not supported
	}
	if name, ok := strings.CutPrefix(e.Message, "type \""); ok {
		if schema, _, ok := strings.Cut(name, "."); ok && !b.hasSchema(schema) {
			return text, sqlstate.InvalidSchemaName, "schema \"" + schema + "\" does not exist"
		}
	}
	return text, e.Code, e.Message
}

// hasOperator reports whether there is an operator for operands of exactly these types.
func (b *builder) hasOperator(name string, l, r *types.T) bool {
	if slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, name) {
		_, _, err := b.Registry.ResolveCompare(scalar.EQ, l, r)
		return err == nil && l.Same(r)
	}
	res, err := b.Registry.ResolveOperator(name, []*types.T{l, r})
	return err == nil && len(res.Func.Args) == 2 && res.Func.Args[0].Same(l) && res.Func.Args[1].Same(r)
}

// typeWritten is a type of an argument as PostgreSQL's notices write it: keywords for types have the names of pg_type, and other names stay.
func typeWritten(text string) string {
	f := strings.Fields(text)
	for len(f) > 1 && slices.Contains([]string{"in", "out", "inout", "variadic"}, strings.ToLower(f[0])) {
		f = f[1:]
	}
	text = strings.Join(f, " ")
	base, brackets, _ := strings.Cut(text, "[")
	if brackets != "" {
		brackets = "[" + brackets
	}
	names := map[string]string{"int": "int4", "integer": "int4", "smallint": "int2", "bigint": "int8", "real": "float4", "float": "float8", "double precision": "float8",
		"decimal": "numeric", "dec": "numeric", "numeric": "numeric", "boolean": "bool", "varchar": "varchar", "character varying": "varchar", "char": "bpchar",
		"character": "bpchar", "time": "time", "timestamp": "timestamp", "interval": "interval", "bit": "bit", "*": "*"}
	switch name := names[strings.ToLower(base)]; name {
	case "":
		return text
	case "*":
		return ""
	default:
		return "pg_catalog." + name + brackets
	}
}

// missing returns the code and the message for an object that does not exist. It raises an error for one that exists and can't be dropped.
func (b *builder) missing(kind, method string, o parse.MissingName, ifExists bool) (sqlstate.Code, string) {
	name := o.Name.String()
	switch kind {
	case "operator class", "operator family":
		if _, ok := system.OperatorClassNamed(o.Name.Name); ok || strings.HasSuffix(o.Name.Name, "_ops") {
			raise(sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop %s %s for access method %s because it is required by the database system", kind, o.Name.Name, method))
		}
		return sqlstate.UndefinedObject, kind + " \"" + name + "\" does not exist for access method \"" + method + "\""
	case "cast":
		from, _, _ := b.argument(o.Args[0])
		to, _, _ := b.argument(o.Args[1])
		s, serr := b.TypeNamed(b.ctx, parse.NamedType{Text: o.Args[0]})
		d, derr := b.TypeNamed(b.ctx, parse.NamedType{Text: o.Args[1]})
		// PostgreSQL's catalogue does not have the casts by the text forms of types.
		byText := serr == nil && derr == nil && s.IsString() != d.IsString() && s.Kind != types.KindBool && s.Phys() != types.PhysNet && d.Kind != types.KindRegClass
		if serr == nil && derr == nil && !s.Same(d) && scalar.ElemType(s) == nil && !byText && types.CanCast(s, d, types.CastExplicit) {
			raise(sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop cast from %s to %s because it is required by the database system", from, to))
		}
		if ifExists {
			from, to = typeWritten(o.Args[0]), typeWritten(o.Args[1])
		}
		return sqlstate.UndefinedObject, "cast from type " + from + " to type " + to + " does not exist"
	case "operator":
		if l, err := b.TypeNamed(b.ctx, parse.NamedType{Text: o.Args[0]}); err == nil && (o.Name.Schema == "" || o.Name.Schema == "pg_catalog") {
			if r, err := b.TypeNamed(b.ctx, parse.NamedType{Text: o.Args[1]}); err == nil && b.hasOperator(o.Name.Name, l, r) {
				raise(sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop operator %s(%s,%s) because it is required by the database system", o.Name.Name, l.Name(), r.Name()))
			}
		}
		if ifExists {
			return sqlstate.UndefinedFunction, "operator " + name + " does not exist"
		}
		left, _, _ := b.argument(o.Args[0])
		right, _, _ := b.argument(o.Args[1])
		if strings.EqualFold(o.Args[1], "none") {
			b.fail(sqlstate.SyntaxError, nil, "postfix operators are not supported")
		}
		if left != "" {
			left += " "
		}
		return sqlstate.UndefinedFunction, "operator does not exist: " + left + name + " " + right
	case "function", "procedure", "routine", "aggregate":
		var args []string
		for _, a := range o.Args {
			shown, _, _ := b.argument(a)
			if ifExists {
				shown = typeWritten(a)
			}
			if a == "*" && !ifExists {
				shown = a
			}
			if shown != "" {
				args = append(args, shown)
			}
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
		if !slices.Contains(undroppable[kind], o.Name.Name) && !ifExists {
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
