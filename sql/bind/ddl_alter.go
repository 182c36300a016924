package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// alterTable binds ALTER TABLE's actions in order; later ones see what earlier ones added.
func (b *builder) alterTable(n *tree.AlterTable) Statement {
	t := b.alterTarget(n.Table, n.IfExists)
	a := b.alter(t, n.Table)
	if t == nil {
		return a
	}
	if t.Kind == catalog.KindView && len(n.Cmds) == 1 && b.viewOptions(n.Cmds[0], a, t) {
		return a
	}
	if t.Kind != catalog.KindTable {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", t.Name)
	}
	if t.Materialized {
		raise(sqlstate.New(sqlstate.WrongObjectType, "ALTER action cannot be performed on relation \"%s\"", t.Name).
			WithDetail("This operation is not supported for materialized views."))
	}
	draft := *t
	draft.Columns = append([]catalog.Column(nil), t.Columns...)
	d := &tableDef{b: b, existing: t, draft: &draft, names: map[string]bool{}, generated: map[string]bool{}, kinds: map[string]ConstraintKind{}}
	d.name = Name{Database: b.databaseOf(t), Schema: b.schemaOf(t), Name: t.Name}
	for i := range t.Checks {
		d.names[t.Checks[i].Name] = true
	}
	for i := range t.Foreign {
		d.names[t.Foreign[i].Name] = true
	}
	for i := range t.Indexes {
		if !(t.Indexes[i].Primary && t.ImplicitPrimary) {
			d.names[t.Indexes[i].Name] = true
		}
	}
	d.retyped = map[string]*types.T{}
	cmds := slices.Clone(n.Cmds)
	if slices.ContainsFunc(cmds, func(c tree.AlterTableCmd) bool { return alterPass(c) == passType }) {
		slices.SortStableFunc(cmds, func(x, y tree.AlterTableCmd) int { return alterPass(x) - alterPass(y) })
	}
	for _, cmd := range cmds {
		if alterPass(cmd) == passRest {
			for i := range draft.Columns {
				if to := d.retyped[draft.Columns[i].Name]; to != nil && draft.Columns[i].State == catalog.Public {
					draft.Columns[i].Type = to
				}
			}
		}
		b.alterAction(cmd, a, d)
	}
	a.Notices = append(a.Notices, d.notices...)
	return a
}

// Passes of ALTER TABLE: first the drops, then the changes of types, whose expressions read the rows as they were; the other actions see the new
// types.
const (
	passDrop = iota
	passType
	passRest
)

func alterPass(cmd tree.AlterTableCmd) int {
	switch n := cmd.(type) {
	case *tree.AlterTableDropColumn, *tree.AlterTableDropConstraint, *tree.AlterTableDropNotNull, *tree.AlterTableDropIdentity:
		return passDrop
	case *tree.AlterTableSetDefault:
		if n.Default == nil {
			return passDrop
		}
	case *tree.AlterTableSetOnUpdate:
		if n.Expr == nil {
			return passDrop
		}
	case *tree.AlterTableAlterColumnType:
		return passType
	}
	return passRest
}

// noPosition takes the position from an error of an action: PostgreSQL looks at these actions apart from the statement's text. Errors with one
// code keep it.
func noPosition(but sqlstate.Code) func(*sqlstate.Error) {
	return func(e *sqlstate.Error) {
		if e.Code != but {
			e.Position = 0
		}
	}
}

// typeOf is typeRef without a position in errors.
func (b *builder) typeOf(ref tree.ResolvableTypeReference) *types.T {
	defer unplaced(noPosition(""))
	return b.typeRef(ref)
}

// alterType binds ALTER COLUMN TYPE; retyped has the columns whose type the statement has already changed.
func (b *builder) alterType(n *tree.AlterTableAlterColumnType, t *catalog.Table, retyped map[string]*types.T) *AlterColumnType {
	col := b.existingColumn(t, n.Column)
	b.noPartitionColumn(t, col.Name)
	to := b.typeOf(n.ToType)
	b.storable(col.Name, to, nil)
	if col.Identity != 0 && !to.IsInteger() {
		b.fail(sqlstate.InvalidParameterValue, nil, "identity column type must be smallint, integer, or bigint")
	}
	if col.Generated != "" && n.Using != nil {
		raise(sqlstate.New("42611", "cannot specify USING when altering type of generated column").
			WithDetail("Column \"%s\" is a generated column.", col.Name))
	}
	act := &AlterColumnType{Column: col.Name, Type: to, Plain: true, Using: parse.QuoteIdent(col.Name)}
	if n.Using != nil {
		_, sc := b.newRow(t, t.Name)
		x := b.expr(&exprContext{scope: sc, clause: "transform expressions", noSubquery: true}, n.Using)
		from := x.Type()
		if from.Kind != types.KindUnknown && !types.CanCast(from, to, types.CastAssignment) {
			raise(sqlstate.New(sqlstate.DatatypeMismatch, "result of USING clause for column \"%s\" cannot be cast automatically to type %s", col.Name, to.Name()).
				WithHint("You might need to add an explicit cast."))
		}
		act.Varies = scalar.VolatilityOf(b.assign(x, &catalog.Column{Name: col.Name, Type: to}, n.Using)) != scalar.Immutable
		act.Using = scalar.FormatStored(x)
		if c, ok := x.(*scalar.Cast); ok && c.Type().Equal(to) {
			x = c.Arg
		}
		k, ok := x.(*scalar.Column)
		act.Plain = ok && k.Name == col.Name
	} else if !types.CanCast(col.Type, to, types.CastAssignment) {
		e := sqlstate.New(sqlstate.DatatypeMismatch, "column \"%s\" cannot be cast automatically to type %s", col.Name, to.Name())
		if col.Generated == "" {
			e.WithHint("You might need to specify \"USING %s::%s\".", parse.QuoteIdent(col.Name), to.String())
		}
		raise(e)
	}
	if n.Using == nil {
		act.Varies = scalar.VolatilityOf(b.assign(&scalar.Column{T: col.Type, Name: col.Name}, &catalog.Column{Name: col.Name, Type: to}, nil)) != scalar.Immutable
	}
	if col.Default != "" && col.Identity == 0 {
		from := b.stored(t, col.Default, nil).Type()
		if from.Kind != types.KindUnknown && !types.CanCast(from, to, types.CastAssignment) {
			b.fail(sqlstate.DatatypeMismatch, nil, "default for column \"%s\" cannot be cast automatically to type %s", col.Name, to.Name())
		}
	}
	for i := range t.Indexes {
		for _, k := range t.Indexes[i].Columns {
			if k.Column == col.ID {
				b.operatorClass(k.Class, to)
			}
		}
	}
	if retyped[col.Name] != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "cannot alter type of column \"%s\" twice", col.Name)
	}
	retyped[col.Name] = to
	return act
}

// flush turns the columns and constraints that a definition step gathered into actions.
func (d *tableDef) flush(a *AlterTable, ifNotExists bool) {
	d.finish()
	for _, c := range d.columns {
		a.Actions = append(a.Actions, &AddColumn{IfNotExists: ifNotExists, Column: c})
	}
	for _, c := range d.constraints {
		a.Actions = append(a.Actions, &AddConstraint{Constraint: c})
	}
	d.columns, d.constraints = nil, nil
}

// viewOptions binds SET (...) and RESET (...) of a view; it reports whether the command is one of these.
func (b *builder) viewOptions(cmd tree.AlterTableCmd, a *AlterTable, t *catalog.Table) bool {
	opts := map[string]string{}
	switch n := cmd.(type) {
	case *tree.AlterTableSetStorageParams:
		if len(n.StorageParams) > 0 && b.stmt.SecurityInvoker == nil { // package parse has seen those of ALTER VIEW
			switch name := strings.ToLower(n.StorageParams[0].Key); name {
			case "security_barrier":
			case catalog.SecurityInvoker:
				raise(sqlstate.New(sqlstate.FeatureNotSupported, "ALTER TABLE can't set %s of a view", name).WithHint("Use ALTER VIEW."))
			default:
				b.fail(sqlstate.InvalidParameterValue, nil, "unrecognized parameter \"%s\"", name)
			}
		}
		if on := b.stmt.SecurityInvoker; on != nil {
			opts[catalog.SecurityInvoker] = map[bool]string{true: "true", false: "false"}[*on]
		}
	case *tree.AlterTableResetStorageParams:
		for _, p := range n.Params {
			if p != catalog.SecurityInvoker && p != "security_barrier" {
				b.fail(sqlstate.InvalidParameterValue, nil, "unrecognized parameter \"%s\"", p)
			}
			opts[p] = ""
		}
	default:
		return false
	}
	a.Actions = append(a.Actions, &SetOptions{opts})
	return true
}

// alterAction binds one action of ALTER TABLE.
func (b *builder) alterAction(cmd tree.AlterTableCmd, a *AlterTable, d *tableDef) {
	t := d.draft
	column := func(n tree.Name) string {
		b.existingColumn(t, n)
		return string(n)
	}
	switch n := cmd.(type) {
	case *tree.AlterTableAddColumn:
		d.addColumn(n, a)
	case *tree.AlterTableAddConstraint:
		d.addConstraint(n, a)
	case *tree.AlterTableAlterPrimaryKey:
		if n.Name != "" || n.Sharded != nil || len(n.StorageParams) > 0 {
			b.fail(sqlstate.FeatureNotSupported, nil, "ALTER PRIMARY KEY with options is not supported")
		}
		a.add(&AlterPrimaryKey{Columns: b.indexKeys(n.Columns, d.draft, "")})
	case *tree.AlterTablePartitionByTable:
		if t.ImplicitPrimary {
			raise(sqlstate.New(sqlstate.InvalidObjectDefinition, "a table without a primary key can't be partitioned").WithHint("The primary key begins with the columns of PARTITION BY."))
		}
		b.noTemporaryPartitions(t.Temporary())
		x := t.Primary()
		a.add(&SetPartitioning{Index: x.ID, Partitioning: b.partitionByTable(n.PartitionByTable, d.name.Database, keysOf(t, x), t)})
	case *tree.AlterTableDropColumn:
		d.dropColumn(n, a)
	case *tree.AlterTableDropConstraint:
		d.dropConstraint(n, a)
	case *tree.AlterTableValidateConstraint:
		if !d.names[string(n.Constraint)] {
			b.fail(sqlstate.UndefinedObject, nil, "constraint \"%s\" of relation \"%s\" does not exist", n.Constraint, t.Name)
		}
		a.add(&ValidateConstraint{Name: string(n.Constraint)})
	case *tree.AlterTableRenameColumn:
		d.renameColumn(n, a)
	case *tree.AlterTableRenameConstraint:
		if !d.names[string(n.Constraint)] {
			b.fail(sqlstate.UndefinedObject, nil, "constraint \"%s\" for table \"%s\" does not exist", n.Constraint, t.Name)
		}
		a.add(&RenameConstraint{From: string(n.Constraint), To: string(n.NewName)})
	case *tree.AlterTableSetDefault:
		d.setDefault(n, a)
	case *tree.AlterTableSetOnUpdate:
		a.add(d.setOnUpdate(n, t))
	case *tree.AlterTableSetNotNull:
		a.add(&SetNotNull{column(n.Column)})
	case *tree.AlterTableDropNotNull:
		d.dropNotNull(n, a)
	case *tree.AlterTableAlterColumnType:
		a.add(b.alterType(n, t, d.retyped))
	case *tree.AlterTableSetStorageParams:
		b.setParameters(n, a)
	case *tree.AlterTableResetStorageParams:
		b.resetParameters(n, a, t)
	case *tree.AlterTableDropIdentity:
		a.add(&DropIdentity{column(n.Column), n.IfExists})
	case *tree.AlterTableAddIdentity:
		d.addIdentity(n, a)
	case *tree.AlterTableSetIdentity:
		kind := byte('d')
		if n.GeneratedAsIdentityType == tree.GeneratedAlways {
			kind = 'a'
		}
		a.add(&AlterIdentity{Column: column(n.Column), Identity: kind})
	case *tree.AlterTableIdentity:
		b.alterIdentity(n, a, t)
	default:
		b.fail(sqlstate.FeatureNotSupported, nil, "this form of ALTER TABLE is not supported")
	}
}

// add appends an action.
func (a *AlterTable) add(x AlterAction) { a.Actions = append(a.Actions, x) }

// addColumn binds ADD COLUMN.
func (d *tableDef) addColumn(n *tree.AlterTableAddColumn, a *AlterTable) {
	if n.ColumnDef.DefaultExpr.Expr != nil || len(n.ColumnDef.CheckExprs) > 0 {
		defer unplaced(noPosition(sqlstate.UndefinedObject))
	}
	if n.IfNotExists && d.has(string(n.ColumnDef.Name)) {
		a.Notices = append(a.Notices, Notice{Severity: "NOTICE", Code: string(sqlstate.DuplicateColumn),
			Message: "column \"" + string(n.ColumnDef.Name) + "\" of relation \"" + d.draft.Name + "\" already exists, skipping"})
		return
	}
	d.define(n.ColumnDef)
	d.flush(a, n.IfNotExists)
}

// addConstraint binds ADD CONSTRAINT.
func (d *tableDef) addConstraint(n *tree.AlterTableAddConstraint, a *AlterTable) {
	b := d.b
	defer unplaced(noPosition(""))
	notValid := n.ValidationBehavior == tree.ValidationSkip
	ifNotExists := func(yes bool) {
		if yes {
			b.fail(sqlstate.FeatureNotSupported, nil, "ADD CONSTRAINT IF NOT EXISTS is not supported")
		}
	}
	switch def := n.ConstraintDef.(type) {
	case *tree.UniqueConstraintTableDef:
		ifNotExists(def.IfNotExists)
		d.unique(def, b.deferral(uniqueKind(def)))
	case *tree.CheckConstraintTableDef:
		ifNotExists(def.IfNotExists)
		d.check(string(def.Name), def.Expr, notValid)
	case *tree.ForeignKeyConstraintTableDef:
		ifNotExists(def.IfNotExists)
		d.foreign(def, notValid, b.deferral(parse.ForeignConstraint))
	default:
		b.fail(sqlstate.FeatureNotSupported, nil, "this constraint is not supported")
	}
	d.flush(a, false)
}

// dropColumn binds DROP COLUMN, and later actions do not see the column.
func (d *tableDef) dropColumn(n *tree.AlterTableDropColumn, a *AlterTable) {
	t := d.draft
	name := string(n.Column)
	if t.ColumnByName(name) == nil {
		if !n.IfExists {
			d.b.existingColumn(t, n.Column)
		}
		a.Notices = append(a.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "column \"" + name + "\" of relation \"" + t.Name + "\" does not exist, skipping"})
		return
	}
	a.add(&DropColumn{Name: name, IfExists: n.IfExists, Cascade: n.DropBehavior == tree.DropCascade})
	for i := range t.Columns {
		if t.Columns[i].Name == name && t.Columns[i].State == catalog.Public {
			t.Columns = append(t.Columns[:i:i], t.Columns[i+1:]...)
			break
		}
	}
}

// dropConstraint binds DROP CONSTRAINT.
func (d *tableDef) dropConstraint(n *tree.AlterTableDropConstraint, a *AlterTable) {
	if !d.names[string(n.Constraint)] {
		if !n.IfExists {
			d.b.fail(sqlstate.UndefinedObject, nil, "constraint \"%s\" of relation \"%s\" does not exist", n.Constraint, d.draft.Name)
		}
		a.Notices = append(a.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "constraint \"" + string(n.Constraint) + "\" of relation \"" + d.draft.Name + "\" does not exist, skipping"})
		return
	}
	a.add(&DropConstraint{Name: string(n.Constraint), IfExists: n.IfExists, Cascade: n.DropBehavior == tree.DropCascade})
}

// renameColumn binds RENAME COLUMN, and later actions see the new name.
func (d *tableDef) renameColumn(n *tree.AlterTableRenameColumn, a *AlterTable) {
	b, t := d.b, d.draft
	from, to := string(n.Column), string(n.NewName)
	if t.ColumnByName(from) == nil {
		b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" does not exist", from)
	}
	if t.ColumnByName(to) != nil {
		b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" of relation \"%s\" already exists", to, t.Name)
	}
	a.add(&RenameColumn{From: from, To: to})
	for i := range t.Columns {
		if t.Columns[i].Name == from && t.Columns[i].State == catalog.Public {
			t.Columns[i].Name = to
		}
	}
}

// setDefault binds SET DEFAULT and DROP DEFAULT.
func (d *tableDef) setDefault(n *tree.AlterTableSetDefault, a *AlterTable) {
	b, t := d.b, d.draft
	if col := b.existingColumn(t, n.Column); col.Identity != 0 {
		e := sqlstate.New(sqlstate.SyntaxError, "column \"%s\" of relation \"%s\" is an identity column", col.Name, t.Name)
		if n.Default == nil {
			e.WithHint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
		}
		raise(e)
	} else if col.Generated != "" {
		raise(sqlstate.New(sqlstate.SyntaxError, "column \"%s\" of relation \"%s\" is a generated column", col.Name, t.Name))
	}
	defer unplaced(noPosition(""))
	s := &SetDefault{Column: string(n.Column)}
	if n.Default != nil {
		s.Expr = d.defaultText(n.Default, t.ColumnByName(s.Column))
	}
	t.ColumnByName(s.Column).Default = s.Expr
	a.add(s)
}

// dropNotNull binds DROP NOT NULL, which columns of a primary key do not have.
func (d *tableDef) dropNotNull(n *tree.AlterTableDropNotNull, a *AlterTable) {
	b, t := d.b, d.draft
	name := b.existingColumn(t, n.Column).Name
	if t.ColumnByName(name).Identity != 0 {
		b.fail(sqlstate.SyntaxError, nil, "column \"%s\" of relation \"%s\" is an identity column", name, t.Name)
	}
	for i := range t.Indexes {
		for _, ic := range t.Indexes[i].Columns {
			if t.Indexes[i].PrimaryKey() && t.Column(ic.Column) != nil && t.Column(ic.Column).Name == name {
				b.fail(sqlstate.InvalidTableDefinition, nil, "column \"%s\" is in a primary key", name)
			}
		}
	}
	a.add(&DropNotNull{name})
}

// setParameters binds SET with storage parameters: some have actions of their own, and the others are options.
func (b *builder) setParameters(n *tree.AlterTableSetStorageParams, a *AlterTable) {
	opts := map[string]string{}
	var ballots catalog.Ballots
	var gamma int
	for _, p := range n.StorageParams {
		if set := b.ballots(p.Key, constText(p.Value)); set != nil {
			if b.policy(&ballots, &gamma, set) {
				b.fail(sqlstate.InvalidParameterValue, nil, "parameter \"%s\" specified more than once", strings.ToLower(p.Key))
			}
			a.add(set)
			continue
		}
		if strings.EqualFold(p.Key, catalog.InferRegion) {
			a.add(&InferRegion{b.inferredBy(p)})
			continue
		}
		if strings.EqualFold(p.Key, catalog.ProtocolOption) {
			a.add(&SetProtocol{b.commitProtocol(constText(p.Value))})
			continue
		}
		a.Notices = append(a.Notices, b.parameters(tableParameters, tree.StorageParams{p}, opts)...)
	}
	if len(opts) > 0 {
		a.add(&SetOptions{opts})
	}
}

// resetParameters binds RESET with storage parameters.
func (b *builder) resetParameters(n *tree.AlterTableResetStorageParams, a *AlterTable, t *catalog.Table) {
	opts := map[string]string{}
	for _, p := range n.Params {
		switch {
		case strings.EqualFold(p, catalog.InferRegion):
			a.add(&InferRegion{})
			continue
		case strings.EqualFold(p, catalog.ProtocolOption):
			a.add(&SetProtocol{})
			continue
		case strings.EqualFold(p, catalog.BallotsOption):
			a.add(&SetBallots{})
			continue
		case strings.EqualFold(p, catalog.GammaOption):
			a.add(&SetGamma{})
			continue
		case strings.EqualFold(p, catalog.SkipUniqueChecks) && t.SkipsUniqueChecks():
			raise(sqlstate.New(sqlstate.FeatureNotSupported, "%s can't be turned off: rows of different regions may have the same keys", catalog.SkipUniqueChecks).
				WithHint("Copy the rows to another table."))
		}
		opts[p] = ""
	}
	if len(opts) > 0 {
		a.add(&SetOptions{opts})
	}
}

// addIdentity binds ADD GENERATED ... AS IDENTITY.
func (d *tableDef) addIdentity(n *tree.AlterTableAddIdentity, a *AlterTable) {
	col := d.b.existingColumn(d.draft, n.Column)
	kind, opts := byte('d'), tree.SequenceOptions(nil)
	switch q := n.Qualification.(type) {
	case *tree.GeneratedAlwaysAsIdentity:
		kind, opts = 'a', q.SeqOptions
	case *tree.GeneratedByDefAsIdentity:
		opts = q.SeqOptions
	}
	a.add(&AddIdentity{col.Name, kind, d.identitySequence(col.Name, col.Type, opts)})
}

// alterIdentity binds ALTER COLUMN with options of the identity's sequence.
func (b *builder) alterIdentity(n *tree.AlterTableIdentity, a *AlterTable, t *catalog.Table) {
	col := b.existingColumn(t, n.Column)
	act := &AlterIdentity{Column: col.Name}
	if seq, err := b.View.TableByID(b.ctx, col.OwnsSequence); col.Identity != 0 && err == nil && seq != nil && seq.Sequence != nil {
		act.Sequence = &AlterSequence{Table: seq, Definition: *seq.Sequence}
		o := b.sequenceOptions(n.SeqOptions, &act.Sequence.Definition, false)
		act.Sequence.Restart, act.Sequence.Late = o.restart, o.late
	}
	a.add(act)
}

// alterConstraint binds ALTER TABLE ... ALTER CONSTRAINT.
func (b *builder) alterConstraint(n *parse.AlterConstraint) Statement {
	on := &tree.UnresolvedObjectName{NumParts: 1, Parts: [3]string{n.Table.Name, n.Table.Schema, ""}}
	if n.Table.Schema != "" {
		on.NumParts = 2
	}
	t := b.alterTarget(on, n.IfExists)
	a := b.alter(t, on)
	if t == nil {
		return a
	}
	if t.Kind != catalog.KindTable {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", t.Name)
	}
	for i := range t.Foreign {
		if t.Foreign[i].Name == n.Name {
			a.Actions = append(a.Actions, &AlterConstraint{Name: n.Name, Deferrable: n.Deferrable, Deferred: n.Deferred})
			return a
		}
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Name == n.Name && (x.Constraint || x.Primary) {
			b.fail(sqlstate.WrongObjectType, nil, "constraint \"%s\" of relation \"%s\" is not a foreign key constraint", n.Name, t.Name)
		}
	}
	for i := range t.Checks {
		if t.Checks[i].Name == n.Name {
			b.fail(sqlstate.WrongObjectType, nil, "constraint \"%s\" of relation \"%s\" is not a foreign key constraint", n.Name, t.Name)
		}
	}
	b.fail(sqlstate.UndefinedObject, nil, "constraint \"%s\" of relation \"%s\" does not exist", n.Name, t.Name)
	return nil
}

// setOnUpdate binds ALTER COLUMN SET or DROP ON UPDATE.
func (d *tableDef) setOnUpdate(n *tree.AlterTableSetOnUpdate, t *catalog.Table) *SetOnUpdate {
	b := d.b
	col := b.existingColumn(t, n.Column)
	if n.Expr == nil {
		col.OnUpdate = ""
		return &SetOnUpdate{Column: col.Name}
	}
	switch {
	case col.Identity != 0:
		b.fail(sqlstate.InvalidTableDefinition, n.Expr, "identity column \"%s\" cannot have an ON UPDATE expression", col.Name)
	case col.Generated != "":
		b.fail(sqlstate.InvalidTableDefinition, n.Expr, "computed column \"%s\" cannot have an ON UPDATE expression", col.Name)
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; k.OnUpdate >= catalog.Cascade && slices.Contains(k.Columns, col.ID) {
			raise(errTwoUpdates(col.Name))
		}
	}
	text := d.onUpdateText(n.Expr, col)
	if strings.Contains(text, rehome) && b.inForeignKey(t, col) {
		raise(errRehomed(col.Name))
	}
	return &SetOnUpdate{Column: col.Name, Expr: text}
}

// inForeignKey reports whether a column is one of a foreign key, on either side.
func (b *builder) inForeignKey(t *catalog.Table, col *catalog.Column) bool {
	for i := range t.Foreign {
		if slices.Contains(t.Foreign[i].Columns, col.ID) {
			return true
		}
	}
	for _, ref := range t.ReferencedBy {
		child, err := b.View.TableByID(b.ctx, ref.Table)
		check(err)
		for i := range child.Foreign {
			if k := &child.Foreign[i]; k.RefTable == t.ID && slices.Contains(k.RefColumns, col.ID) {
				return true
			}
		}
	}
	return false
}
