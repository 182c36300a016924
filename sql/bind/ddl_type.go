package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// userType finds a type that CREATE TYPE has made; nil if there is none. The statement depends on it. A stored expression may name a
// type in its table's schema.
func (b *builder) userType(schema, name string) *catalog.Type {
	v, ok := b.View.(catalog.TypeView)
	if !ok {
		return nil
	}
	if schema != "" {
		b.mustUse(b.View.CurrentDatabase(), schema)
	}
	t, err := v.Type(b.ctx, schema, name)
	check(err)
	if t == nil && schema == "" && b.home != nil {
		t, err = v.Type(b.ctx, b.schemaOf(b.home), name)
		check(err)
	}
	if t != nil {
		b.dependsOn(t.ID, t.Version)
	}
	return t
}

// enumType finds an enum, or the type of its arrays, by name; nil if there is none.
func (b *builder) enumType(schema, name string) *types.T {
	if t := b.userType(schema, name); t != nil {
		return types.EnumOf(&t.Enum)
	}
	if len(name) > 1 && name[0] == '_' {
		if t := b.userType(schema, name[1:]); t != nil {
			return types.ArrayOf(types.EnumOf(&t.Enum))
		}
	}
	return nil
}

// typeByID finds an enum, or the type of its arrays, by its identity; nil if there is none. The statement depends on it.
func (b *builder) typeByID(id uint32) *types.T {
	v, ok := b.View.(catalog.TypeView)
	if !ok {
		return nil
	}
	t, err := v.TypeByID(b.ctx, catalog.ID(id))
	check(err)
	if t == nil {
		return nil
	}
	b.dependsOn(t.ID, t.Version)
	if t.Enum.Array == id {
		return types.ArrayOf(types.EnumOf(&t.Enum))
	}
	return types.EnumOf(&t.Enum)
}

func objectName(n *tree.UnresolvedObjectName) (schema, name string) {
	if name = n.Parts[0]; n.NumParts > 1 {
		schema = n.Parts[1]
	}
	return schema, name
}

func (b *builder) label(v tree.EnumValue) string {
	if len(v) > maxName {
		raise(sqlstate.New(sqlstate.InvalidName, "invalid enum label \"%s\"", string(v)).WithDetail("Labels must be 63 bytes or less."))
	}
	return string(v)
}

func (b *builder) createType(n *tree.CreateType) Statement {
	if n.Variety != tree.Enum {
		b.fail(sqlstate.FeatureNotSupported, nil, "composite types are not supported")
	}
	schema, name := objectName(n.TypeName)
	c := &CreateType{IfNotExists: n.IfNotExists}
	c.Name, c.Temporary = b.newRelation("", schema, name, false)
	seen := map[string]bool{}
	for _, v := range n.EnumLabels {
		l := b.label(v)
		if seen[l] {
			raise(sqlstate.New(sqlstate.UniqueViolation, "duplicate key value violates unique constraint \"pg_enum_typid_label_index\""))
		}
		seen[l] = true
		c.Labels = append(c.Labels, l)
	}
	return c
}

func (b *builder) existingType(n *tree.UnresolvedObjectName) *catalog.Type {
	schema, name := objectName(n)
	return b.typeNamed(Name{Schema: schema, Name: name})
}

// typeNamed finds the type that a statement names.
func (b *builder) typeNamed(n Name) *catalog.Type {
	if t := b.userType(n.Schema, n.Name); t != nil {
		return t
	}
	if _, ok := types.FromName(n.Name); ok && (n.Schema == "" || n.Schema == "pg_catalog") {
		b.fail(sqlstate.WrongObjectType, nil, "%s is not an enum", n.Name)
	}
	if n.Schema != "" {
		b.schemaOfType(n.Schema)
		n.Name = n.Schema + "." + n.Name
	}
	b.fail(sqlstate.UndefinedObject, nil, "type \"%s\" does not exist", n.Name)
	return nil
}

// hasSchema reports whether there is a schema of a name that an object's name has; an empty one is no part of it.
func (b *builder) hasSchema(name string) bool {
	if name == "" || name == "pg_catalog" || name == "information_schema" || name == "pg_temp" {
		return true
	}
	s, err := b.View.Schema(b.ctx, b.View.CurrentDatabase(), name)
	check(err)
	return s != nil
}

// schemaOfType refuses a schema that does not exist.
func (b *builder) schemaOfType(name string) {
	if !b.hasSchema(name) {
		b.fail(sqlstate.InvalidSchemaName, nil, "schema \"%s\" does not exist", name)
	}
}

func (b *builder) alterEnum(n *tree.AlterType) Statement {
	a := &AlterType{Type: b.existingType(n.Type)}
	switch c := n.Cmd.(type) {
	case *tree.AlterTypeAddValue:
		a.Add, a.IfNotExists = b.label(c.NewVal), c.IfNotExists
		a.Adds = true
		if p := c.Placement; p != nil {
			a.Beside, a.Before, a.After = string(p.ExistingVal), p.Before, !p.Before
		}
	case *tree.AlterTypeRenameValue:
		a.RenameValue, a.To, a.Renames = string(c.OldVal), b.label(c.NewVal), true
	case *tree.AlterTypeRename:
		a.Rename = string(c.NewName)
	case *tree.AlterTypeOwner:
		a.Owner = b.role(c.Owner)
	case *tree.AlterTypeSetSchema:
		a.Schema = string(c.Schema)
	case *tree.AlterTypeDropValue:
		a.DropsValue = true
	default:
		b.fail(sqlstate.FeatureNotSupported, nil, "this form of ALTER TYPE is not supported")
	}
	return a
}

func (b *builder) dropType(n *tree.DropType) Statement {
	d := &DropType{Cascade: n.DropBehavior == tree.DropCascade}
	for _, x := range n.Names {
		schema, name := objectName(x)
		if t := b.userType(schema, name); t != nil {
			d.Types = append(d.Types, t)
			continue
		}
		if schema != "" {
			sc, err := b.View.Schema(b.ctx, b.View.CurrentDatabase(), schema)
			if check(err); sc == nil && n.IfExists {
				d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "schema \"" + schema + "\" does not exist, skipping"})
				continue
			}
			b.schemaOfType(schema)
		}
		if t, ok := types.FromName(name); ok && (schema == "" || schema == "pg_catalog") {
			b.fail(sqlstate.DependentObjectsExist, nil, "cannot drop type %s because it is required by the database system", t.Name())
		}
		if schema != "" {
			name = schema + "." + name
		}
		if !n.IfExists {
			b.fail(sqlstate.UndefinedObject, nil, "type \"%s\" does not exist", name)
		}
		d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "type \"" + name + "\" does not exist, skipping"})
	}
	return d
}

// enumFunction binds enum_first, enum_last and enum_range, whose result depends on the type of their arguments more than on the values; nil if the
// arguments are not enums.
func (b *builder) enumFunction(name string, args []scalar.Expr) scalar.Expr {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && name != "enum_range" {
		return nil
	}
	var t *types.T
	for _, a := range args {
		switch k := a.Type(); {
		case k.Kind == types.KindEnum && (t == nil || t.Same(k)):
			t = k
		case k.Kind != types.KindUnknown:
			return nil
		}
	}
	if t == nil {
		return nil
	}
	f := &scalar.Overload{Name: name, Return: t, Volatility: scalar.Stable, CalledOnNull: true}
	in := make([]scalar.Expr, len(args))
	for i := range args {
		in[i] = b.coerce(args[i], t, types.CastImplicit, nil)
		f.Args = append(f.Args, t)
	}
	end := func(of func() (types.Datum, bool, error)) {
		f.Eval = func(*scalar.Context, []types.Datum) (types.Datum, error) {
			d, ok, err := of()
			if err == nil && !ok {
				err = sqlstate.New(sqlstate.ObjectNotInPrerequisite, "enum %s contains no values", t.Name())
			}
			return d, err
		}
	}
	switch name {
	case "enum_first":
		end(t.Enum.First)
	case "enum_last":
		end(t.Enum.Last)
	default:
		f.Return = types.ArrayOf(t)
		f.Eval = func(_ *scalar.Context, a []types.Datum) (types.Datum, error) {
			if len(a) == 1 {
				return t.Enum.Range(types.Null, types.Null)
			}
			return t.Enum.Range(a[0], a[1])
		}
	}
	return &scalar.Call{Func: f, Args: in, T: f.Return}
}
