package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/encoding"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// menuVariables are what an option of the placement menu says: numbers and kinds of replicas, and their places (Spanner §2.2).
var menuVariables = []string{"num_replicas", "num_voters", "constraints", "voter_constraints", "lease_preferences"}

// PlacementOption is CREATE, ALTER or DROP PLACEMENT.
type PlacementOption struct {
	Verb, Name string
	// Unless is IF NOT EXISTS of CREATE, and IF EXISTS of the others.
	Unless bool
	// Set has the variables that the statement gives; Clear names those that get their defaults.
	Set   catalog.ZoneConfig
	Clear []string
}

// TagPlacement is SET PLACEMENT and RESET PLACEMENT of a database, of a table, or with Prefix of a directory of a table.
type TagPlacement struct {
	Database *catalog.Database
	Table    *catalog.Table
	Prefix   *catalog.Bound
	// Placement is the option; empty: the object has none any more.
	Placement string
}

// Tag is the command tag of the statement.
func (t *TagPlacement) Tag() string {
	if t.Table == nil {
		return "ALTER DATABASE"
	}
	return "ALTER TABLE"
}

func (b *builder) placementOption(n *parse.PlacementOption) Statement {
	p := &PlacementOption{Verb: n.Verb, Name: n.Name, Unless: n.Unless}
	if n.Name == "" {
		b.fail(sqlstate.InvalidName, nil, "the name of a placement is not empty")
	}
	seen := map[string]bool{}
	for _, v := range n.Options {
		name := strings.ToLower(v.Name)
		switch {
		case !slices.Contains(menuVariables, name):
			raise(sqlstate.New(sqlstate.InvalidParameterValue, "unknown variable of a placement: \"%s\"", name).
				WithHint("A placement says how many replicas there are, and where: %s. CONFIGURE ZONE of databases and tables has other variables.", strings.Join(menuVariables, ", ")))
		case seen[name]:
			b.fail(sqlstate.SyntaxError, nil, "variable \"%s\" is given twice", name)
		case v.Default:
			p.Clear = append(p.Clear, name)
		default:
			b.zoneVariable(&p.Set, name, v.Value)
		}
		seen[name] = true
	}
	return p
}

func (b *builder) setPlacement(n *parse.SetPlacement) Statement {
	if !n.Reset && n.Placement == "" {
		b.fail(sqlstate.UndefinedObject, nil, "placement \"\" does not exist")
	}
	if n.Database != "" {
		return &TagPlacement{Database: b.changedDatabase(n.Database), Placement: n.Placement}
	}
	if n.IfExists && b.lookupTable(n.Table.Database, n.Table.Schema, n.Table.Name) == nil {
		return &Noop{Tag: "ALTER TABLE", Notice: "relation \"" + n.Table.Name + "\" does not exist, skipping"}
	}
	t := b.named(n.Table)
	switch {
	case t.Kind != catalog.KindTable:
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", t.Name)
	case t.Temporary():
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is a temporary table", t.Name)
	}
	s := &TagPlacement{Table: t, Placement: n.Placement}
	dbs, err := b.View.Databases(b.ctx)
	check(err)
	for _, d := range dbs {
		if d.ID == t.Database {
			s.Database = d
			b.dependsOn(d.ID, d.Version)
		}
	}
	if n.HasValues {
		s.Prefix = b.directory(t, n.Values)
	}
	return s
}

// directory binds the values of FOR VALUES: those of the first columns of a table's primary key.
func (b *builder) directory(t *catalog.Table, texts []string) *catalog.Bound {
	x := t.Primary()
	if t.ImplicitPrimary || slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return x.Key }) {
		raise(sqlstate.New(sqlstate.InvalidTableDefinition, "table \"%s\" has no directories, because its rows are not stored by a primary key", t.Name).
			WithHint("A directory is the rows whose primary key begins with some values: give the table a PRIMARY KEY that is NOT DEFERRABLE."))
	}
	keys := keysOf(t, x)
	if len(texts) > len(keys) {
		var names []string
		for _, k := range keys {
			names = append(names, k.Name)
		}
		raise(sqlstate.New(sqlstate.InvalidParameterValue, "%d values were given, and the primary key of table \"%s\" has %d columns", len(texts), t.Name, len(keys)).
			WithHint("The values are those of the first columns of the key (%s).", strings.Join(names, ", ")))
	}
	out := &catalog.Bound{Values: len(texts)}
	var shown []string
	for i, text := range texts {
		e, _, err := parse.ParseExpr(text)
		if err != nil {
			b.fail(sqlstate.SyntaxError, nil, "invalid value of column \"%s\": %s", keys[i].Name, text)
		}
		c := t.ColumnByName(keys[i].Name)
		d := b.keyConstant(c, e)
		dir := encoding.Ascending
		if keys[i].Desc {
			dir = encoding.Descending
		}
		out.Key, err = rowcode.AppendKeyDatum(out.Key, d, dir)
		check(err)
		shown = append(shown, constantText(d, c.Type))
	}
	out.Text = strings.Join(shown, ", ")
	return out
}

// keyConstant is the value of an expression for a key column.
func (b *builder) keyConstant(c *catalog.Column, e tree.Expr) types.Datum {
	x := b.expr(&exprContext{scope: &scope{level: &level{}}, clause: "values of a directory", noSubquery: true}, e)
	if from := x.Type(); from.Kind != types.KindUnknown && !types.CanCast(from, c.Type, types.CastAssignment) {
		b.fail(sqlstate.DatatypeMismatch, nil, "column \"%s\" is of type %s, and the value of type %s", c.Name, c.Type.Name(), from.Name())
	}
	k, ok := scalar.Fold(b.coerce(x, c.Type, types.CastAssignment, e)).(*scalar.Const)
	if !ok {
		b.fail(sqlstate.InvalidParameterValue, nil, "the value of column \"%s\" is not a constant", c.Name)
	}
	if k.Value.IsNull() {
		b.fail(sqlstate.InvalidParameterValue, nil, "NULL is no value of column \"%s\", which is in the primary key", c.Name)
	}
	return k.Value
}
