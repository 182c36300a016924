package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	gtypes "github.com/cockroachdb/cockroachdb-parser/pkg/sql/types"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// maxColumns bounds the columns of a table.
const maxColumns = 1600

// tableDef is a table definition under construction; later parts of the definition see the table in draft.
type tableDef struct {
	b     *builder
	name  Name
	draft *catalog.Table
	// existing is the table to which ALTER TABLE adds; nil for CREATE TABLE.
	existing *catalog.Table
	// temporary: the table is temporary; a foreign key is between two temporary tables, or between two others.
	temporary   bool
	columns     []ColumnDef
	constraints []ConstraintDef
	indexes     []IndexDef
	notices     []Notice
	names       map[string]bool // constraint and index names in use
	retyped     map[string]*types.T
	// region is the region column of a new table that is REGIONAL BY ROW.
	region string
	// generated are columns with a generation expression, which may not be bound yet.
	generated map[string]bool
	onCommit  catalog.OnCommit
	// later are checks and keys, bound when all columns are known, and last are foreign keys, bound when all keys are.
	later, last []func()
	// kinds are the kinds of the constraints that the statement names, by their names.
	kinds map[string]ConstraintKind
	// constraintNames are the names of the constraints of all tables of the schema; nil: not needed yet.
	constraintNames map[string]bool
}

func (d *tableDef) taken(s string) bool {
	return d.names[s] || d.b.relationNameTaken(d.name.Database, d.name.Schema, s, d.existing)
}

// constraintTaken reports whether the schema has a constraint of the name, of whichever table: a generated name is another one then, as in PostgreSQL.
func (d *tableDef) constraintTaken(s string) bool {
	if d.constraintNames == nil {
		d.constraintNames = d.b.constraintNames(d.name)
	}
	return d.names[s] || d.constraintNames[s]
}

// keyTaken reports whether the schema has a relation or a constraint of the name.
func (d *tableDef) keyTaken(s string) bool { return d.taken(s) || d.constraintTaken(s) }

// constraintNames are the names of all constraints in the schema of a new relation.
func (b *builder) constraintNames(n Name) map[string]bool {
	out := map[string]bool{}
	s, err := b.View.Schema(b.ctx, n.Database, n.Schema)
	check(err)
	ts, err := b.View.Tables(b.ctx, n.Database)
	check(err)
	for _, t := range ts {
		if s == nil || t.Schema != s.ID {
			continue
		}
		for i := range t.Indexes {
			if x := &t.Indexes[i]; x.Constraint && !(x.Primary && t.ImplicitPrimary) {
				out[x.Name] = true
			}
		}
		for i := range t.Checks {
			out[t.Checks[i].Name] = true
		}
		for i := range t.Foreign {
			out[t.Foreign[i].Name] = true
		}
	}
	return out
}

// finish binds the elements that waited for others: checks and keys, then foreign keys.
func (d *tableDef) finish() {
	for _, f := range d.later {
		f()
	}
	d.nameKeys()
	for _, f := range d.last {
		f()
	}
	d.later, d.last = nil, nil
}

// nameKeys gives the keys that have no name theirs, the primary key's first. Of several keys that are the same in CREATE TABLE one is left, with the name of the first that has one,
// and the primary key if it is among them.
func (d *tableDef) nameKeys() {
	var keys []int
	for i := range d.constraints {
		if d.constraints[i].Kind == PrimaryKey {
			keys = append(keys, i)
		}
	}
	drop := map[int]bool{}
	for i := range d.constraints {
		c := &d.constraints[i]
		if c.Kind != Unique {
			continue
		}
		same := slices.IndexFunc(keys, func(j int) bool { return d.existing == nil && d.constraints[j].sameKey(c) })
		if same < 0 {
			keys = append(keys, i)
			continue
		}
		if o := &d.constraints[keys[same]]; !o.NameGiven {
			o.Name, o.NameGiven = c.Name, c.NameGiven
		}
		drop[i] = true
	}
	for _, i := range keys {
		c := &d.constraints[i]
		switch {
		case c.Name != "":
			continue
		case c.Kind == PrimaryKey:
			c.Name = pickName(d.keyTaken, "pkey", d.name.Name)
		default:
			c.Name = pickName(d.keyTaken, "key", d.name.Name, indexColumnNames(c.Columns, c.Storing)...)
		}
		d.names[c.Name] = true
	}
	var kept []ConstraintDef
	for i, c := range d.constraints {
		if !drop[i] {
			kept = append(kept, c)
		}
	}
	d.constraints = kept
}

// sameKey reports whether two keys, of which neither is copied from another table, are the same but for their names.
func (k *ConstraintDef) sameKey(o *ConstraintDef) bool {
	return !k.copied && !o.copied && slices.Equal(k.Columns, o.Columns) && slices.Equal(k.Storing, o.Storing) && k.Deferrable == o.Deferrable && k.Deferred == o.Deferred &&
		k.Predicate == o.Predicate && k.Partitioning == nil && o.Partitioning == nil
}

func (d *tableDef) column(name string) *ColumnDef {
	for i := range d.columns {
		if d.columns[i].Name == name {
			return &d.columns[i]
		}
	}
	return nil
}

func (d *tableDef) has(name string) bool { return d.draft.ColumnByName(name) != nil }

// createTable binds CREATE TABLE.
func (b *builder) createTable(n *tree.CreateTable) Statement {
	d := &tableDef{b: b, names: map[string]bool{}, generated: map[string]bool{}, kinds: map[string]ConstraintKind{}}
	temporary := n.Persistence.IsTemporary()
	d.name, temporary = b.newRelation(string(n.Table.CatalogName), string(n.Table.SchemaName), string(n.Table.ObjectName), temporary)
	d.temporary = temporary
	d.draft = &catalog.Table{Name: d.name.Name}
	d.b.draft, d.b.draftName = d.draft, d.name
	ct := &CreateTable{Name: d.name, IfNotExists: n.IfNotExists, Temporary: temporary, WithData: !b.stmt.NoData, Options: map[string]string{}}
	switch b.stmt.OnCommit {
	case parse.DeleteRows:
		ct.OnCommit = catalog.DeleteRows
	case parse.DropTable:
		ct.OnCommit = catalog.DropTable
	}
	d.onCommit = ct.OnCommit
	if b.stmt.OnCommit != parse.OnCommitUnset && !temporary {
		b.fail(sqlstate.InvalidTableDefinition, nil, "ON COMMIT can only be used on temporary tables")
	}
	if t := b.existingRelation(d.name); t != nil {
		if !n.IfNotExists {
			b.fail(sqlstate.DuplicateTable, nil, "relation \"%s\" already exists", d.name.Name)
		}
		// The definition is not checked then.
		ct.Notices = []Notice{{Severity: "NOTICE", Code: string(sqlstate.DuplicateTable), Message: "relation \"" + d.name.Name + "\" already exists, skipping"}}
		ct.Exists, ct.AsQuery = true, n.As()
		return ct
	}
	if n.Locality != nil && temporary {
		b.fail(sqlstate.FeatureNotSupported, nil, "LOCALITY is not supported for temporary tables")
	}
	ct.Locality = b.locality(d.name.Database, n.Locality)
	if n.Persistence == tree.PersistenceUnlogged && temporary {
		b.fail(sqlstate.InvalidTableDefinition, nil, "only temporary relations may be created in temporary schemas")
	}
	if n.Persistence == tree.PersistenceUnlogged {
		ct.Notices = append(ct.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "UNLOGGED has no effect", Hint: "All tables are logged."})
	}
	b.createParameters(n, ct)
	byRow := func() {
		if ct.Locality.Kind == catalog.RegionalByRow {
			d.byRow(ct, n.Locality)
		}
	}
	if ct.AsQuery = n.As(); ct.AsQuery {
		b.createTableAs(n, d, ct)
		byRow()
	} else {
		for _, def := range n.Defs {
			d.define(def)
		}
		byRow()
		if len(d.columns) > maxColumns {
			b.fail(sqlstate.TooManyColumns, nil, "tables can have at most %d columns", maxColumns)
		}
		d.finish()
	}
	for _, c := range b.stmt.Included {
		if !d.has(c) {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" named in key does not exist", c)
		}
	}
	if in := b.stmt.Interleave; in != nil {
		d.interleave(ct, in, n.Locality != nil, n.PartitionByTable.ContainsPartitions())
	}
	d.primaryKey(ct)
	ct.Columns, ct.Constraints, ct.Indexes = d.columns, d.constraints, d.indexes
	ct.Notices = append(ct.Notices, d.notices...)
	if n.PartitionByTable.ContainsPartitions() {
		b.noTemporaryPartitions(temporary)
		if ct.ImplicitPrimary {
			raise(sqlstate.New(sqlstate.InvalidObjectDefinition, "a table without a primary key can't be partitioned").WithHint("The primary key begins with the columns of PARTITION BY."))
		}
		for _, k := range ct.Constraints {
			if k.Kind == PrimaryKey {
				ct.Partitioning = b.partitionByTable(n.PartitionByTable, d.name.Database, k.Columns, d.draft)
			}
		}
	}
	return ct
}

// createParameters binds the storage parameters of CREATE TABLE: some are parts of the table, and the others are options.
func (b *builder) createParameters(n *tree.CreateTable, ct *CreateTable) {
	named := false
	for _, p := range n.StorageParams {
		if strings.EqualFold(p.Key, catalog.ProtocolOption) {
			if named {
				b.fail(sqlstate.InvalidParameterValue, nil, "parameter \"%s\" specified more than once", catalog.ProtocolOption)
			}
			named, ct.Protocol = true, b.commitProtocol(constText(p.Value))
			b.mayName(ct, n.As())
			continue
		}
		if set := b.ballots(p.Key, constText(p.Value)); set != nil {
			if b.policy(&ct.Ballots, &ct.Gamma, set) {
				b.fail(sqlstate.InvalidParameterValue, nil, "parameter \"%s\" specified more than once", strings.ToLower(p.Key))
			}
			continue
		}
		if strings.EqualFold(p.Key, catalog.InferRegion) {
			if ct.InferRegion != "" {
				b.fail(sqlstate.InvalidParameterValue, nil, "parameter \"%s\" specified more than once", catalog.InferRegion)
			}
			ct.InferRegion = b.inferredBy(p)
			continue
		}
		if strings.EqualFold(p.Key, catalog.SkipUniqueChecks) {
			b.skipUniqueChecks(ct, constText(p.Value))
			continue
		}
		ct.Notices = append(ct.Notices, b.parameters(tableParameters, tree.StorageParams{p}, ct.Options)...)
	}
}

func (b *builder) existingRelation(n Name) *catalog.Table {
	t, err := b.View.Table(b.ctx, n.Database, n.Schema, n.Name)
	check(err)
	return t
}

// createTableAs takes the columns from a query.
func (b *builder) createTableAs(n *tree.CreateTable, d *tableDef, ct *CreateTable) {
	if b.stmt.NumParams > 0 {
		b.fail(sqlstate.FeatureNotSupported, nil, "parameters are not supported in CREATE TABLE AS")
	}
	b.top = withOf(n.AsSource)
	out := b.selectQuery(n.AsSource, &scope{level: &level{}}, false)
	var names []string
	for _, def := range n.Defs {
		if c, ok := def.(*tree.ColumnTableDef); ok {
			names = append(names, string(c.Name))
		}
	}
	if len(names) > len(out.cols) {
		b.fail(sqlstate.SyntaxError, nil, "too many column names were specified")
	}
	for i, c := range out.cols {
		name := c.name
		if i < len(names) {
			name = names[i]
		}
		if d.has(name) {
			b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" specified more than once", name)
		}
		t := c.t
		if t.Kind != types.KindUnknown {
			b.storable(name, t, nil)
		}
		d.add(ColumnDef{Name: name, Type: t})
	}
	ct.As = b.finish(b.queryOf(&out, "SELECT"))
}

// storable refuses a type that no column can have, also as the elements of an array. at is where the column's name is written.
func (b *builder) storable(column string, t *types.T, at any) {
	base := t
	for base.Elem != nil {
		base = base.Elem
	}
	switch {
	case base.Kind == types.KindTuple && base.Row != "":
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "column \"%s\" can't have the type %s: rows are not stored in columns", column, t.Name()).
			WithHint("Store the key of the row, or the row as jsonb."))
	case base.Kind == types.KindXID8:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "column \"%s\" can't have the type %s: numbers of transactions are not stored", column, t.Name()).
			WithHint("Use bigint, and the number as text: pg_current_xact_id()::text::bigint."))
	case base.Kind == types.KindTuple, base.Kind == types.KindUnknown, base.Kind == types.KindVoid, base.Kind == types.KindAny:
		b.fail(sqlstate.InvalidTableDefinition, at, "column \"%s\" has pseudo-type %s", column, t.Name())
	}
}

// add appends a column to the definition and to the draft.
func (d *tableDef) add(c ColumnDef) {
	d.columns = append(d.columns, c)
	d.draft.Columns = append(d.draft.Columns, catalog.Column{ID: catalog.ColumnID(len(d.draft.Columns) + 1), Name: c.Name, Type: c.Type, NotNull: c.NotNull, Hidden: c.Hidden})
}

// define adds one element of CREATE TABLE's list.
func (d *tableDef) define(def tree.TableDef) {
	b := d.b
	switch n := def.(type) {
	case *tree.ColumnTableDef:
		d.columnDef(n)
	case *tree.UniqueConstraintTableDef:
		def := b.deferral(uniqueKind(n))
		d.later = append(d.later, func() { d.unique(n, def) })
	case *tree.CheckConstraintTableDef:
		d.later = append(d.later, func() { d.check(string(n.Name), n.Expr, false) })
	case *tree.ForeignKeyConstraintTableDef:
		def := b.deferral(parse.ForeignConstraint)
		d.last = append(d.last, func() { d.foreign(n, false, def) })
	case *tree.IndexTableDef:
		d.later = append(d.later, func() { d.index(n) })
	case *tree.FamilyTableDef:
		b.fail(sqlstate.FeatureNotSupported, nil, "column families are not supported")
	case *tree.LikeTableDef:
		d.like(n)
	default:
		b.fail(sqlstate.FeatureNotSupported, nil, "this table element is not supported")
	}
}

// columnDef adds a column with its constraints.
func (d *tableDef) columnDef(n *tree.ColumnTableDef) {
	b := d.b
	name := string(n.Name)
	if d.has(name) {
		if d.existing != nil {
			b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" of relation \"%s\" already exists", name, d.name.Name)
		}
		b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" specified more than once", name)
	}
	switch name {
	case "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid":
		b.fail(sqlstate.DuplicateColumn, nil, "column name \"%s\" conflicts with a system column name", name)
	}
	if n.Type == nil {
		b.fail(sqlstate.FeatureNotSupported, n.Name, "a column needs a type")
	}
	c := ColumnDef{Name: name, Type: b.typeRef(n.Type), Hidden: n.Hidden}
	b.storable(name, c.Type, n.Name)
	c.NotNull = n.Nullable.Nullability == tree.NotNull || n.PrimaryKey.IsPrimaryKey
	serial := n.IsSerial
	if gt, ok := n.Type.(*gtypes.T); ok && !serial {
		serial = gt == &gtypes.Serial2Type || gt == &gtypes.Serial4Type || gt == &gtypes.Serial8Type
	}
	identity := n.GeneratedIdentity.IsGeneratedAsIdentity
	if n.OnUpdateExpr.Expr != nil && n.Computed.Computed {
		b.fail(sqlstate.InvalidTableDefinition, n.OnUpdateExpr.Expr, "computed column \"%s\" cannot have an ON UPDATE expression", name)
	}
	if n.HasColumnFamily() {
		b.fail(sqlstate.FeatureNotSupported, nil, "column families are not supported")
	}
	if n.PrimaryKey.Sharded {
		b.fail(sqlstate.FeatureNotSupported, nil, "hash-sharded indexes are not supported")
	}
	if serial && identity {
		b.fail(sqlstate.SyntaxError, nil, "both default and identity specified for column \"%s\" of table \"%s\"", name, d.name.Name)
	}
	if serial || identity {
		if n.DefaultExpr.Expr != nil {
			what := "default"
			if identity {
				what = "both default and identity"
			}
			b.fail(sqlstate.SyntaxError, nil, "%s specified for column \"%s\" of table \"%s\"", multiple(what), name, d.name.Name)
		}
		if n.Nullable.Nullability == tree.Null {
			b.fail(sqlstate.SyntaxError, nil, "conflicting NULL/NOT NULL declarations for column \"%s\" of table \"%s\"", name, d.name.Name)
		}
		c.NotNull = true
		var opts tree.SequenceOptions
		if identity {
			c.Identity = 'd'
			if n.GeneratedIdentity.GeneratedAsIdentityType == tree.GeneratedAlways {
				c.Identity = 'a'
			}
			opts = n.GeneratedIdentity.SeqOptions
		}
		c.Sequence = d.identitySequence(name, c.Type, opts)
		c.Default = identityDefault(c.Sequence)
	}
	d.add(c)
	pos := len(d.columns) - 1
	if n.DefaultExpr.Expr != nil {
		d.columns[pos].Default = d.defaultText(n.DefaultExpr.Expr, &d.draft.Columns[len(d.draft.Columns)-1])
	}
	if n.OnUpdateExpr.Expr != nil {
		d.columns[pos].OnUpdate = d.onUpdateText(n.OnUpdateExpr.Expr, &d.draft.Columns[len(d.draft.Columns)-1])
	}
	if n.Computed.Computed {
		if n.Computed.Virtual {
			b.fail(sqlstate.FeatureNotSupported, n.Computed.Expr, "virtual generated columns are not supported")
		}
		if d.columns[pos].Default != "" {
			b.fail(sqlstate.SyntaxError, nil, "both default and generation expression specified for column \"%s\" of table \"%s\"", name, d.name.Name)
		}
		expr := n.Computed.Expr
		d.generated[name] = true
		d.later = append(d.later, func() { d.columns[pos].Generated = d.generatedText(expr, name) })
	}
	if n.PrimaryKey.IsPrimaryKey {
		d.notices = append(d.notices, b.parameters(indexParameters, n.PrimaryKey.StorageParams, nil)...)
		d.constraint(deferred(ConstraintDef{Kind: PrimaryKey, Name: string(n.Unique.ConstraintName), Columns: []IndexColumnDef{{Name: name}}, node: string(n.Name)},
			b.deferral(parse.PrimaryConstraint)))
	} else if n.Unique.IsUnique {
		d.constraint(deferred(ConstraintDef{Kind: Unique, Name: string(n.Unique.ConstraintName), Columns: []IndexColumnDef{{Name: name}}},
			b.deferral(parse.UniqueConstraint)))
	}
	for i := range n.CheckExprs {
		ck := n.CheckExprs[i]
		d.later = append(d.later, func() { d.check(string(ck.ConstraintName), ck.Expr, false) })
	}
	if n.References.Table != nil {
		fk := &tree.ForeignKeyConstraintTableDef{Name: n.References.ConstraintName, Table: *n.References.Table, FromCols: tree.NameList{n.Name},
			Actions: n.References.Actions, Match: n.References.Match}
		if n.References.Col != "" {
			fk.ToCols = tree.NameList{n.References.Col}
		}
		def := b.deferral(parse.ForeignConstraint)
		d.last = append(d.last, func() { d.foreign(fk, false, def) })
	}
}

// identityDefault is the default of a column by its sequence.
func identityDefault(s *CreateSequence) string {
	return "nextval(" + parse.QuoteLiteral(parse.QuoteIdent(s.Name.Name)) + "::regclass)"
}

func multiple(what string) string {
	if what == "default" {
		return "multiple default values"
	}
	return what
}

// defaultText validates a DEFAULT and returns the text to store.
func (d *tableDef) defaultText(e tree.Expr, col *catalog.Column) string {
	if e == tree.DNull {
		return ""
	}
	return d.valueText(e, col, "DEFAULT expressions", "default expression")
}

// onUpdateText validates an ON UPDATE and returns the text to store.
func (d *tableDef) onUpdateText(e tree.Expr, col *catalog.Column) string {
	text := "NULL"
	if e != tree.DNull {
		text = d.valueText(e, col, "ON UPDATE expressions", "ON UPDATE expression")
	}
	d.draft.ColumnByName(col.Name).OnUpdate = text
	return text
}

// valueText is the text to store of a value for a column that depends on no row; clause and what name it in errors.
func (d *tableDef) valueText(e tree.Expr, col *catalog.Column, clause, what string) string {
	b := d.b
	c := &exprContext{scope: &scope{level: &level{}}, clause: clause, noSubquery: true, noColumns: true}
	x := scalar.Rewrite(b.expr(c, e), numbered)
	from := x.Type()
	if from.Kind != types.KindUnknown && !types.CanCast(from, col.Type, types.CastAssignment) {
		raise(b.at(sqlstate.New(sqlstate.DatatypeMismatch, "column \"%s\" is of type %s but %s is of type %s", col.Name, col.Type.Name(), what, from.Name()).
			WithHint("You will need to rewrite or cast the expression."), e))
	}
	return b.storedValue(x, b.assign(x, col, e), col, e)
}

// numbered replaces the name of a relation by its number, so that a stored expression depends on the relation, and means the same one after it
// was renamed or moved.
func numbered(e scalar.Expr) scalar.Expr {
	if k, ok := e.(*scalar.Const); ok && k.T.Kind == types.KindRegClass && !k.Value.IsNull() {
		return &scalar.Const{Value: types.NewReg(uint32(k.Value.Int()), ""), T: types.RegClass}
	}
	return e
}

// generatedText validates a generation expression over the table's columns.
func (d *tableDef) generatedText(e tree.Expr, name string) string {
	b := d.b
	_, sc := b.newRow(d.draft, d.name.Name)
	c := &exprContext{scope: sc, clause: "column generation expressions", noSubquery: true}
	col := d.draft.ColumnByName(name)
	value := b.labels(b.expr(c, e), col.Type)
	x := b.assign(value, col, e)
	if scalar.VolatilityOf(x) != scalar.Immutable {
		b.fail(sqlstate.InvalidObjectDefinition, e, "generation expression is not immutable")
	}
	scalar.Columns(x, func(id scalar.ColumnID) {
		if of := b.meta.Column(id).Name; d.generated[of] || d.draft.ColumnByName(of).Generated != "" {
			raise(b.at(sqlstate.New(sqlstate.InvalidObjectDefinition, "cannot use generated column \"%s\" in column generation expression", of).
				WithDetail("A generated column cannot reference another generated column."), e))
		}
	})
	return b.storedValue(value, x, col, e)
}

// storedValue is the text to store of a value for a column; assigned is the value with the column's type. It has no cast to the column's type, which is made when the value is used.
func (b *builder) storedValue(value, assigned scalar.Expr, col *catalog.Column, e tree.Expr) string {
	if value.Type().Kind != types.KindUnknown {
		return scalar.FormatStored(value)
	}
	if bare := col.Type.Bare(); !bare.Equal(col.Type) {
		assigned = b.coerce(value, bare, types.CastAssignment, e)
	}
	return scalar.FormatStored(assigned)
}

// labels makes the results of a CASE that are string constants values of an enum, if that is wanted: to PostgreSQL they are texts. A region column is so computed from
// others (CRDB'22 §2.3.2).
func (b *builder) labels(e scalar.Expr, t *types.T) scalar.Expr {
	c, ok := e.(*scalar.Case)
	if !ok || t.Kind != types.KindEnum || c.T.Kind != types.KindText {
		return e
	}
	label := func(e scalar.Expr) scalar.Expr {
		if k, ok := e.(*scalar.Const); ok && !k.Value.IsNull() {
			return b.coerce(&scalar.Const{Value: k.Value, T: types.Unknown}, t, types.CastExplicit, nil)
		}
		return b.labels(e, t)
	}
	out := &scalar.Case{T: t}
	all := true
	add := func(e scalar.Expr) scalar.Expr {
		x := label(e)
		all = all && x.Type().Kind == types.KindEnum
		return x
	}
	for _, w := range c.Whens {
		out.Whens = append(out.Whens, scalar.When{Cond: w.Cond, Result: add(w.Result)})
	}
	if c.Else != nil {
		if k, ok := c.Else.(*scalar.Const); ok && k.Value.IsNull() {
			out.Else = &scalar.Const{Value: types.Null, T: t}
		} else {
			out.Else = add(c.Else)
		}
	}
	if !all {
		return e
	}
	return out
}

// constraint names and appends a constraint.
func (d *tableDef) constraint(c ConstraintDef) {
	b := d.b
	c.NameGiven = c.Name != ""
	var cols []string
	for _, k := range c.Columns {
		cols = append(cols, k.Name)
	}
	if c.NameGiven {
		if d.names[c.Name] {
			isKey := func(k ConstraintKind) bool { return k == PrimaryKey || k == Unique }
			switch of, here := d.kinds[c.Name]; {
			case here && of == Check && c.Kind == Check && d.existing == nil:
				b.fail(sqlstate.DuplicateObject, nil, "check constraint \"%s\" already exists", c.Name)
			case here && isKey(of) && isKey(c.Kind), !here && isKey(c.Kind) && d.taken(c.Name):
				b.fail(sqlstate.DuplicateTable, nil, "relation \"%s\" already exists", c.Name)
			}
			b.fail(sqlstate.DuplicateObject, nil, "constraint \"%s\" for relation \"%s\" already exists", c.Name, d.name.Name)
		}
		if (c.Kind == PrimaryKey || c.Kind == Unique) && d.taken(c.Name) {
			b.fail(sqlstate.DuplicateTable, nil, "relation \"%s\" already exists", c.Name)
		}
	} else {
		switch c.Kind {
		case Check:
			var column []string
			if len(c.ExprColumns) == 1 {
				column = c.ExprColumns
			}
			c.Name = pickName(d.constraintTaken, "check", d.name.Name, column...)
		case ForeignKey:
			c.Name = pickName(d.constraintTaken, "fkey", d.name.Name, cols...)
		}
	}
	if c.Name != "" { // nameKeys gives others theirs
		d.names[c.Name], d.kinds[c.Name] = true, c.Kind
	}
	if c.Kind == PrimaryKey {
		for _, o := range d.constraints {
			if o.Kind == PrimaryKey {
				b.failKey(sqlstate.InvalidTableDefinition, tree.Name(c.node), "multiple primary keys for table \"%s\" are not allowed", d.name.Name)
			}
		}
		if d.existing != nil && (!d.existing.ImplicitPrimary || slices.ContainsFunc(d.existing.Indexes, func(x catalog.Index) bool { return x.Key })) {
			b.fail(sqlstate.InvalidTableDefinition, nil, "multiple primary keys for table \"%s\" are not allowed", d.name.Name)
		}
		for _, k := range c.Columns {
			if col := d.column(k.Name); col != nil {
				col.NotNull = true
			}
		}
	}
	if c.Kind == PrimaryKey || c.Kind == Unique {
		for _, k := range c.Columns {
			b.indexable(d.draft.ColumnByName(k.Name).Type, k.Name)
		}
	}
	d.constraints = append(d.constraints, c)
}

// deferral is the DEFERRABLE clause of the statement's next constraint of a kind.
func (b *builder) deferral(k parse.ConstraintKind) parse.Deferral {
	n := b.deferrals[k]
	b.deferrals[k]++
	return b.stmt.Deferrals[parse.ConstraintNumber{Kind: k, Number: n}]
}

func uniqueKind(n *tree.UniqueConstraintTableDef) parse.ConstraintKind {
	if n.PrimaryKey {
		return parse.PrimaryConstraint
	}
	return parse.UniqueConstraint
}

func deferred(c ConstraintDef, d parse.Deferral) ConstraintDef {
	c.Deferrable, c.Deferred = d.Deferrable, d.Deferred
	return c
}

func (d *tableDef) unique(n *tree.UniqueConstraintTableDef, def parse.Deferral) {
	b := d.b
	if n.WithoutIndex || n.Predicate != nil || n.Sharded != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "this form of unique constraint is not supported")
	}
	c := ConstraintDef{Kind: Unique, Name: string(n.Name), Columns: b.indexKeys(n.Columns, d.draft, "")}
	if n.PrimaryKey {
		c.Kind = PrimaryKey
	}
	if len(n.Columns) > 0 {
		c.node = string(n.Columns[0].Column)
	}
	if n.PartitionByIndex.ContainsPartitions() {
		b.mayPartition(d.name.Database, "a unique constraint")
		b.noTemporaryPartitions(d.temporary)
		c.Partitioning = b.partitioning(n.PartitionByIndex.PartitionBy, c.Columns, d.draft)
	}
	for _, s := range n.Storing {
		if !d.has(string(s)) {
			b.failKey(sqlstate.UndefinedColumn, s, "column \"%s\" named in key does not exist", s)
		}
		c.Storing = append(c.Storing, string(s))
	}
	d.notices = append(d.notices, b.parameters(indexParameters, n.StorageParams, nil)...)
	d.constraint(deferred(c, def))
}

func (d *tableDef) check(name string, e tree.Expr, notValid bool) {
	c := ConstraintDef{Kind: Check, Name: name, NotValid: notValid}
	c.Expr, c.ExprColumns = d.b.constraintExpr(e, d.draft, "check constraints")
	d.constraint(c)
}

func (d *tableDef) index(n *tree.IndexTableDef) {
	b := d.b
	b.forwardIndex(n.Type)
	if n.Invisibility != (tree.IndexInvisibility{}) {
		b.fail(sqlstate.FeatureNotSupported, nil, "invisible indexes are not supported")
	}
	if n.Sharded != nil || n.Predicate != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "this form of index is not supported")
	}
	ix := IndexDef{Name: string(n.Name), Columns: b.indexKeys(n.Columns, d.draft, d.name.Name)}
	if n.PartitionByIndex.ContainsPartitions() {
		b.mayPartition(d.name.Database, "an index")
		b.noTemporaryPartitions(d.temporary)
		ix.Partitioning = b.partitioning(n.PartitionByIndex.PartitionBy, ix.Columns, d.draft)
	}
	for _, s := range n.Storing {
		if !d.has(string(s)) {
			b.fail(sqlstate.UndefinedColumn, s, "column \"%s\" does not exist", s)
		}
		ix.Storing = append(ix.Storing, string(s))
	}
	if ix.Name == "" {
		ix.Name = pickName(d.taken, "idx", d.name.Name, indexColumnNames(ix.Columns, ix.Storing)...)
	} else if d.taken(ix.Name) {
		b.fail(sqlstate.DuplicateTable, nil, "relation \"%s\" already exists", ix.Name)
	}
	d.names[ix.Name] = true
	d.indexes = append(d.indexes, ix)
}

// like copies another table's columns, and with INCLUDING also their defaults, constraints and indexes.
func (d *tableDef) like(n *tree.LikeTableDef) {
	b := d.b
	src := b.table(&n.Name)
	if src.Kind == catalog.KindSequence {
		raise(sqlstate.New(sqlstate.WrongObjectType, "relation \"%s\" is invalid in LIKE clause", src.Name).
			WithDetail("This operation is not supported for sequences."))
	}
	check(b.View.Access().Check(b.View.CurrentUser(), src.ID, catalog.Select))
	var opts tree.LikeTableOpt
	for _, o := range n.Options {
		if o.Excluded {
			opts &^= o.Opt
		} else {
			opts |= o.Opt
		}
	}
	all := opts&^(tree.LikeTableOptConstraints|tree.LikeTableOptDefaults|tree.LikeTableOptGenerated|tree.LikeTableOptIndexes) != 0
	comments, identity := all, all
	for _, o := range b.stmt.Like {
		switch o.Name {
		case "comments":
			comments = !o.Excluded
		case "identity":
			identity = !o.Excluded
		}
	}
	for i := range src.Columns {
		c := &src.Columns[i]
		if c.State != catalog.Public || c.Hidden {
			continue
		}
		if d.has(c.Name) {
			b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" specified more than once", c.Name)
		}
		nc := ColumnDef{Name: c.Name, Type: c.Type, NotNull: c.NotNull}
		if opts.Has(tree.LikeTableOptDefaults) && c.Identity == 0 {
			nc.Default = c.Default
		}
		if opts.Has(tree.LikeTableOptDefaults) {
			nc.OnUpdate = c.OnUpdate
		}
		if opts.Has(tree.LikeTableOptGenerated) {
			nc.Generated = c.Generated
		}
		if comments {
			nc.Comment = c.Comment
		}
		if identity && c.Identity != 0 {
			nc.Identity = c.Identity
			nc.Sequence = d.identitySequence(c.Name, c.Type, nil)
			if seq, err := b.View.TableByID(b.ctx, c.OwnsSequence); err == nil && seq != nil && seq.Sequence != nil {
				was, own := *seq.Sequence, &nc.Sequence.Definition
				own.Start, own.Increment, own.Min, own.Max, own.Cache, own.Cycle = was.Start, was.Increment, was.Min, was.Max, was.Cache, was.Cycle
			}
			nc.Default = identityDefault(nc.Sequence)
		}
		d.add(nc)
	}
	if opts.Has(tree.LikeTableOptConstraints) {
		for _, k := range src.Checks {
			ck := ConstraintDef{Kind: Check, Name: k.Name, Expr: k.Expr}
			for _, id := range k.Columns {
				ck.ExprColumns = append(ck.ExprColumns, src.Column(id).Name)
			}
			d.constraint(ck)
		}
	}
	if opts.Has(tree.LikeTableOptIndexes) {
		for i := range src.Indexes {
			ix := &src.Indexes[i]
			if ix.State != catalog.Public || ix.Primary && src.ImplicitPrimary {
				continue
			}
			var cols []IndexColumnDef
			for _, ic := range ix.Columns {
				name := src.Column(ic.Column).Name
				cols = append(cols, IndexColumnDef{name, ic.Desc, ic.Class})
			}
			var storing []string
			for _, id := range ix.Stored {
				storing = append(storing, src.Column(id).Name)
			}
			switch {
			case ix.PrimaryKey():
				d.constraint(ConstraintDef{Kind: PrimaryKey, copied: true, Columns: cols, Deferrable: ix.Deferrable, Deferred: ix.Deferred})
			case ix.Constraint:
				d.constraint(ConstraintDef{Kind: Unique, copied: true, Columns: cols, Storing: storing, Deferrable: ix.Deferrable, Deferred: ix.Deferred})
			default:
				name := pickName(d.taken, "idx", d.name.Name, indexColumnNames(cols, storing)...)
				d.names[name] = true
				d.indexes = append(d.indexes, IndexDef{Name: name, Unique: ix.Unique, Columns: cols, Storing: storing})
			}
		}
	}
}

// primaryKey gives a table without a primary key, or with a deferrable one, the hidden column rowid.
func (d *tableDef) primaryKey(ct *CreateTable) {
	for _, c := range d.constraints {
		if c.Kind == PrimaryKey && !c.Deferrable {
			return
		}
	}
	name := "rowid"
	for i := 1; d.has(name); i++ {
		name = "rowid_" + itoa(i)
	}
	ct.ImplicitPrimary = true
	d.add(ColumnDef{Name: name, Type: types.Int8, NotNull: true, Hidden: true, Default: "unique_rowid()"})
	d.constraints = append(d.constraints, ConstraintDef{Kind: PrimaryKey, Name: pickName(d.taken, "pkey", d.name.Name, name), Columns: []IndexColumnDef{{Name: name}}})
}
