package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// userType finds a type that CREATE TYPE made; nil if there is none. The statement depends on it. A stored expression may name a
// type of its table's schema.
func (b *builder) userType(schema, name string) *catalog.Type {
	v, ok := b.View.(catalog.TypeView)
	if !ok {
		return nil
	}
	if schema != "" {
		b.mustUse(b.View.CurrentDatabase(), schema)
	}
	t, err := v.Type(b.ctx, schema, name)
	b.check(err)
	if t == nil && schema == "" && b.home != nil {
		t, err = v.Type(b.ctx, b.homeSchema(), name)
		b.check(err)
	}
	if t != nil && b.meta != nil {
		b.meta.Depends = append(b.meta.Depends, opt.Dependency{ID: t.ID, Version: t.Version})
	}
	return t
}

// enumType is a type by its name, or that of its arrays; nil if there is none.
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

// usable refuses a value of an enum that the open transaction has added to it.
func (b *builder) usable(t *types.T, place int64, label string) {
	if v, ok := b.View.(catalog.TypeView); ok && v.Fresh(catalog.ID(t.Enum.ID), place) {
		raise(sqlstate.New("55P04", "unsafe use of new value \"%s\" of enum type %s", label, t.Name()).
			WithHint("New enum values must be committed before they can be used."))
	}
}

func objectName(n *tree.UnresolvedObjectName) (schema, name string) {
	if name = n.Parts[0]; n.NumParts > 1 {
		schema = n.Parts[1]
	}
	return schema, name
}

// maxLabel is the longest label of an enum, as PostgreSQL's.
const maxLabel = 63

func (b *builder) label(v tree.EnumValue) string {
	if len(v) > maxLabel {
		raise(sqlstate.New(sqlstate.InvalidName, "invalid enum label \"%s\"", string(v)).WithDetail("Labels must be 63 bytes or less."))
	}
	return string(v)
}

func (b *builder) createType(n *tree.CreateType) Statement {
	if n.Variety != tree.Enum {
		b.fail(sqlstate.FeatureNotSupported, nil, "composite types are not supported")
	}
	schema, name := objectName(n.TypeName)
	c := &CreateType{Name: b.newName("", schema, name), IfNotExists: n.IfNotExists}
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
	if t := b.userType(schema, name); t != nil {
		return t
	}
	if _, ok := types.FromName(name); ok && (schema == "" || schema == "pg_catalog") {
		b.fail(sqlstate.WrongObjectType, nil, "%s is not an enum", name)
	}
	if schema != "" {
		name = schema + "." + name
	}
	b.fail(sqlstate.UndefinedObject, nil, "type \"%s\" does not exist", name)
	return nil
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
			name = schema + "." + name
		}
		if !n.IfExists {
			if _, ok := types.FromName(name); ok {
				b.fail(sqlstate.DependentObjectsExist, nil, "cannot drop type %s because it is required by the database system", name)
			}
			b.fail(sqlstate.UndefinedObject, nil, "type \"%s\" does not exist", name)
		}
		d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "type \"" + name + "\" does not exist, skipping"})
	}
	return d
}

// enumFunction is enum_first, enum_last or enum_range, which look at the type of their argument more than at its value; nil if the
// arguments are of another kind.
func (b *builder) enumFunction(name string, args []scalar.Expr) scalar.Expr {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && name != "enum_range" {
		return nil
	}
	var t *types.T
	for _, a := range args {
		switch {
		case a.Type().Kind == types.KindEnum:
			t = a.Type()
		case a.Type().Kind != types.KindUnknown:
			return nil
		}
	}
	if t == nil {
		return nil
	}
	bounds := []types.Datum{types.Null, types.Null}
	if len(args) == 2 {
		for i := range args {
			k, ok := scalar.Fold(b.coerce(args[i], t, types.CastImplicit, nil)).(*scalar.Const)
			if !ok {
				b.fail(sqlstate.FeatureNotSupported, nil, "enum_range of values that are not constants is not supported")
			}
			bounds[i] = k.Value
		}
	}
	if name == "enum_range" {
		return &scalar.Const{Value: t.Enum.Range(bounds[0], bounds[1]), T: types.ArrayOf(t)}
	}
	k := &scalar.Const{Value: types.Null, T: t}
	if n := len(t.Enum.Values); n > 0 {
		at := 0
		if name == "enum_last" {
			at = n - 1
		}
		k.Value = types.NewInt(t.Enum.Values[at].Place)
	}
	return k
}
