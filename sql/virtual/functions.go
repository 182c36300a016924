package virtual

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Functions are PostgreSQL's catalogue functions over one view: the part of system.Environment that needs the
// catalogue.
type Functions struct {
	ctx  context.Context
	view catalog.View
	p    *Provider
}

// Functions makes the functions for a view.
func (p *Provider) Functions(ctx context.Context, view catalog.View) *Functions {
	return &Functions{ctx: ctx, view: view, p: p}
}

// peeker is a view that can be read without relying on the descriptors; lease.View is one.
type peeker interface {
	Peek(id catalog.ID) *catalog.Table
	// PeekPart is the relation of an index or a constraint, PeekName that of a name in a schema, PeekBare of a name alone.
	PeekPart(oid catalog.ID) *catalog.Table
	PeekBare(name string) *catalog.Table
	PeekName(schema catalog.ID, name string) *catalog.Table
	PeekSchema(id catalog.ID) *catalog.Schema
}

func (f *Functions) table(id uint32) *catalog.Table {
	if p, ok := f.view.(peeker); ok {
		return p.Peek(catalog.ID(id))
	}
	t, _ := f.view.TableByID(f.ctx, catalog.ID(id))
	return t
}

func (f *Functions) tables() []*catalog.Table {
	all, _ := f.view.Tables(f.ctx, f.view.CurrentDatabase())
	return all
}

// index finds an index by OID.
func (f *Functions) index(oid uint32) (*catalog.Table, *catalog.Index) {
	if oid == 0 {
		return nil, nil
	}
	for _, t := range f.owners(oid) {
		for i := range t.Indexes {
			if uint32(t.Indexes[i].OID) == oid {
				return t, &t.Indexes[i]
			}
		}
	}
	return nil, nil
}

// owners are the relations that an index or a constraint may belong to.
func (f *Functions) owners(oid uint32) []*catalog.Table {
	p, ok := f.view.(peeker)
	if !ok {
		return f.tables()
	}
	if t := p.PeekPart(catalog.ID(oid)); t != nil {
		return []*catalog.Table{t}
	}
	return nil
}

func (f *Functions) schemaName(id catalog.ID) string {
	for name, s := range f.p.o.Catalog.Schemas() {
		if s == id {
			return name
		}
	}
	if p, ok := f.view.(peeker); ok {
		if s := p.PeekSchema(id); s != nil {
			return s.Name
		}
		return ""
	}
	list, _ := f.view.Schemas(f.ctx, f.view.CurrentDatabase())
	for _, s := range list {
		if s.ID == id {
			return s.Name
		}
	}
	return ""
}

// Quote writes an identifier as PostgreSQL does: in quotes only if it needs them.
func Quote(name string) string { return scalar.QuoteIdent(name) }

// SplitName divides a possibly quoted and qualified name into its parts, folded to lower case where not quoted.
func SplitName(s string) ([]string, error) {
	bad := func() error { return sqlstate.New(sqlstate.InvalidName, "invalid name syntax") }
	var parts []string
	s = strings.TrimSpace(s)
	for {
		var b strings.Builder
		if strings.HasPrefix(s, `"`) {
			i := 1
			for ; ; i++ {
				if i >= len(s) {
					return nil, bad()
				}
				if s[i] == '"' {
					if i+1 < len(s) && s[i+1] == '"' {
						i++
					} else {
						break
					}
				}
				b.WriteByte(s[i])
			}
			s = s[i+1:]
		} else {
			i := strings.IndexAny(s, ". \t\n\r\v\f")
			if i < 0 {
				i = len(s)
			}
			b.WriteString(strings.ToLower(s[:i]))
			s = s[i:]
		}
		if b.Len() == 0 {
			return nil, bad()
		}
		parts = append(parts, b.String())
		s = strings.TrimSpace(s)
		if s == "" {
			return parts, nil
		}
		if s[0] != '.' {
			return nil, bad()
		}
		s = strings.TrimSpace(s[1:])
	}
}

// relation finds a relation or an index by name; zero if there is none.
func (f *Functions) relation(parts []string) (uint32, error) {
	schema, name := "", parts[len(parts)-1]
	database := f.view.CurrentDatabase()
	switch len(parts) {
	case 1:
	case 2:
		schema = parts[0]
	case 3:
		if schema = parts[1]; parts[0] != database {
			return 0, sqlstate.New(sqlstate.FeatureNotSupported, "cross-database references are not implemented: \"%s\"", dotted(parts))
		}
	default:
		return 0, sqlstate.New(sqlstate.SyntaxError, "improper relation name (too many dotted names): %s", strings.Join(parts, "."))
	}
	if schema != "" {
		s, err := f.view.Schema(f.ctx, database, schema)
		if err != nil {
			return 0, err
		}
		if s == nil {
			return 0, sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", schema)
		}
		if err := f.view.Access().Check(f.view.CurrentUser(), s.ID, catalog.Usage); err != nil {
			return 0, err
		}
	}
	t, err := f.view.Table(f.ctx, database, schema, name)
	if err != nil {
		return 0, err
	}
	if t != nil {
		return uint32(t.ID), nil
	}
	path := f.view.SearchPath()
	if schema != "" {
		path = []string{schema}
	}
	for _, s := range path {
		sc, err := f.view.Schema(f.ctx, database, s)
		if err != nil {
			return 0, err
		}
		if sc == nil {
			continue
		}
		for _, t := range f.tables() {
			if t.Schema != sc.ID {
				continue
			}
			for i := range t.Indexes {
				if t.Indexes[i].Name == name && shownIndex(t, &t.Indexes[i]) {
					return uint32(t.Indexes[i].OID), nil
				}
			}
		}
	}
	return 0, nil
}

// SerialSequence implements system.Environment: the sequence is the one that is dropped with the column.
func (f *Functions) SerialSequence(table, column string) (string, error) {
	id, err := f.ResolveReg(types.KindRegClass, table)
	if err != nil {
		return "", err
	}
	t := f.table(id)
	if t == nil {
		return "", sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", table)
	}
	c := t.ColumnByName(column)
	if c == nil {
		return "", sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" of relation \"%s\" does not exist", column, t.Name)
	}
	if seq := f.table(uint32(c.OwnsSequence)); seq != nil {
		return f.qualified(seq), nil
	}
	for _, seq := range f.tables() {
		if s := seq.Sequence; s != nil && s.OwnerTable == t.ID && s.OwnerColumn == c.ID {
			return f.qualified(seq), nil
		}
	}
	return "", nil
}

func (f *Functions) relationName(t *catalog.Table) string {
	if f.visible(t) {
		return Quote(t.Name)
	}
	return f.qualified(t)
}

func (f *Functions) qualified(t *catalog.Table) string {
	return Quote(f.schemaName(t.Schema)) + "." + Quote(t.Name)
}

// visible reports whether the bare name finds the relation.
func (f *Functions) visible(t *catalog.Table) bool {
	if p, ok := f.view.(peeker); ok {
		// Otherwise a transaction that lists a thousand relations would delay any change of them (virtual.V2).
		got := p.PeekBare(t.Name)
		return got != nil && got.ID == t.ID
	}
	got, err := f.view.Table(f.ctx, "", "", t.Name)
	return err == nil && got != nil && got.ID == t.ID
}

func (f *Functions) schemaVisible(id catalog.ID) bool {
	if id == catalog.PGCatalogSchemaID {
		return true
	}
	name := f.schemaName(id)
	for _, s := range f.view.SearchPath() {
		if s == name {
			return true
		}
	}
	return false
}

// TableIsVisible implements system.Environment.
func (f *Functions) TableIsVisible(oid uint32) bool {
	if t := f.table(oid); t != nil {
		return f.visible(t)
	}
	if t, x := f.index(oid); x != nil {
		return f.schemaVisible(t.Schema)
	}
	return false
}

// shownIndex leaves out indexes that users do not know: the hidden primary key, and indexes that are being dropped.
func shownIndex(t *catalog.Table, x *catalog.Index) bool {
	return !(x.Primary && t.ImplicitPrimary) && x.State != catalog.Absent && x.State != catalog.DeleteOnly
}

func columnNames(t *catalog.Table, ids []catalog.ColumnID) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteString(", ")
		}
		if c := t.Column(id); c != nil {
			b.WriteString(Quote(c.Name))
		}
	}
	return b.String()
}

// written are the key columns of an index that the user wrote. PostgreSQL's tools see only these: the region column in front of them is hidden, and a key
// that is unique over all regions is a key without it.
func written(x *catalog.Index) []catalog.IndexColumn { return x.Columns[x.Implicit:] }

func keyNames(t *catalog.Table, x *catalog.Index, directions bool) string {
	var b strings.Builder
	for i, k := range written(x) {
		if i > 0 {
			b.WriteString(", ")
		}
		if c := t.Column(k.Column); c != nil {
			b.WriteString(Quote(c.Name))
		}
		if k.Class != "" && directions {
			b.WriteString(" " + k.Class)
		}
		if k.Desc && directions {
			b.WriteString(" DESC")
		}
	}
	return b.String()
}

// IndexDef implements system.Environment: the CREATE INDEX statement, or the name of one key column.
func (f *Functions) IndexDef(oid uint32, column int) string {
	t, x := f.index(oid)
	if x == nil {
		return ""
	}
	if column > 0 {
		switch n := column - 1; {
		case n < len(written(x)):
			if c := t.Column(written(x)[n].Column); c != nil {
				return Quote(c.Name)
			}
		case n-len(written(x)) < len(x.Stored):
			if c := t.Column(x.Stored[n-len(written(x))]); c != nil {
				return Quote(c.Name)
			}
		}
		return ""
	}
	return f.indexDef(t, x)
}

func (f *Functions) indexDef(t *catalog.Table, x *catalog.Index) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if x.Unique || x.Primary || x.Deferrable {
		b.WriteString("UNIQUE ")
	}
	b.WriteString("INDEX " + Quote(x.Name) + " ON " + f.qualified(t) + " USING btree (" + keyNames(t, x, true) + ")")
	if len(x.Stored) > 0 {
		b.WriteString(" INCLUDE (" + columnNames(t, x.Stored) + ")")
	}
	if x.Predicate != "" {
		b.WriteString(" WHERE (" + unparenthesized(f.shown(x.Predicate)) + ")")
	}
	return b.String()
}

// unparenthesized removes one pair of parentheses around a whole expression.
func unparenthesized(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return s
	}
	depth, quoted := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 && i < len(s)-1 {
				return s
			}
		}
	}
	return s[1 : len(s)-1]
}

// ConstraintDef implements system.Environment.
func (f *Functions) ConstraintDef(oid uint32, pretty bool) string {
	if oid == 0 {
		return ""
	}
	for _, t := range f.owners(oid) {
		for i := range t.Indexes {
			if x := &t.Indexes[i]; uint32(x.OID) == oid && (x.Primary || x.Constraint) {
				return keyConstraint(t, x)
			}
		}
		for i := range t.Checks {
			if c := &t.Checks[i]; uint32(c.OID) == oid {
				return f.checkConstraint(c, pretty)
			}
		}
		for i := range t.Foreign {
			if k := &t.Foreign[i]; uint32(k.OID) == oid {
				return f.foreignConstraint(t, k)
			}
		}
	}
	return ""
}

func keyConstraint(t *catalog.Table, x *catalog.Index) string {
	kind := "UNIQUE ("
	if x.PrimaryKey() {
		kind = "PRIMARY KEY ("
	}
	s := kind + keyNames(t, x, false) + ")"
	if len(x.Stored) > 0 && !x.PrimaryKey() {
		s += " INCLUDE (" + columnNames(t, x.Stored) + ")"
	}
	return s + deferral(x.Deferrable, x.Deferred)
}

func (f *Functions) checkConstraint(c *catalog.Check, pretty bool) string {
	s := "CHECK (" + parse.Display(f.shown(c.Expr), pretty) + ")"
	if c.State != catalog.Public {
		s += " NOT VALID"
	}
	return s
}

var actionNames = [...]string{"NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"}

// interleaved is INTERLEAVE IN PARENT, in the form of CockroachDB.
func (f *Functions) interleaved(t *catalog.Table) string {
	for i := range t.Foreign {
		k := &t.Foreign[i]
		if !t.InterleavedBy(k.ID) {
			continue
		}
		parent := f.table(uint32(k.RefTable))
		if parent == nil {
			return ""
		}
		s := " INTERLEAVE IN PARENT " + f.relationName(parent) + " (" + columnNames(t, k.Columns) + ")"
		if k.OnDelete != catalog.NoAction {
			s += " ON DELETE " + actionNames[k.OnDelete]
		}
		return s
	}
	return ""
}

func (f *Functions) foreignConstraint(t *catalog.Table, k *catalog.ForeignKey) string {
	ref := t
	if k.RefTable != t.ID {
		ref = f.table(uint32(k.RefTable))
	}
	if ref == nil {
		return ""
	}
	s := "FOREIGN KEY (" + columnNames(t, k.Columns) + ") REFERENCES " + f.relationName(ref) + "(" + columnNames(ref, k.RefColumns) + ")"
	if k.MatchFull {
		s += " MATCH FULL"
	}
	if k.OnUpdate != catalog.NoAction {
		s += " ON UPDATE " + actionNames[k.OnUpdate]
	}
	if k.OnDelete != catalog.NoAction {
		s += " ON DELETE " + actionNames[k.OnDelete]
		if k.SetColumns != nil {
			s += " (" + columnNames(t, k.SetColumns) + ")"
		}
	}
	s += deferral(k.Deferrable, k.Deferred)
	if k.State != catalog.Public {
		s += " NOT VALID"
	}
	return s
}

func deferral(deferrable, deferred bool) string {
	switch {
	case deferred:
		return " DEFERRABLE INITIALLY DEFERRED"
	case deferrable:
		return " DEFERRABLE"
	}
	return ""
}

// ViewDef implements system.Environment.
func (f *Functions) ViewDef(oid uint32, pretty bool) string {
	t := f.table(oid)
	if t == nil || t.Kind != catalog.KindView && !t.Materialized {
		return ""
	}
	named := func(t *catalog.Table) (all, texts []string) {
		for _, c := range visibleColumns(t) {
			if all = append(all, c.Name); c.Type.Kind == types.KindText {
				texts = append(texts, c.Name)
			}
		}
		return all, texts
	}
	columns, texts := named(t)
	return " " + parse.Layout(f.shown(t.View), pretty, columns, func(i int) bool { return slices.Contains(texts, columns[i]) }, func(path []string) (string, []string, []string, bool) {
		if len(path) > 2 {
			return "", nil, nil, false
		}
		for _, id := range t.DependsOn {
			of := f.table(uint32(id))
			if of == nil || of.Name != path[len(path)-1] || len(path) == 2 && f.schemaName(of.Schema) != path[0] {
				continue
			}
			columns, texts := named(of)
			if f.visible(of) {
				return Quote(of.Name), columns, texts, true
			}
			return f.qualified(of), columns, texts, true
		}
		return "", nil, nil, false
	}) + ";"
}

// PrettyExpr implements system.Environment.
func (f *Functions) PrettyExpr(text string) string { return parse.Display(text, true) }

func defaultText(c *catalog.Column) string {
	if c.Generated != "" {
		return c.Generated
	}
	return c.Default
}

// Description is the comment on an object of a class of objects, or on a relation's column; empty if there is none.
func (f *Functions) Description(class string, oid uint32, column int) string {
	switch class {
	case "pg_class":
		t := f.table(oid)
		if t == nil {
			if _, x := f.index(oid); x != nil && column == 0 {
				return x.Comment
			}
			return ""
		}
		if column == 0 {
			return t.Comment
		}
		if c := t.Column(catalog.ColumnID(column)); c != nil {
			return c.Comment
		}
	case "pg_constraint":
		for _, t := range f.owners(oid) {
			return constraintComment(t, oid)
		}
	case "pg_type":
		if v, ok := f.view.(catalog.TypeView); ok && oid >= uint32(catalog.FirstUserID) {
			if t, err := v.TypeByID(f.ctx, catalog.ID(oid)); err == nil && t != nil && uint32(t.ID) == oid {
				return t.Comment
			}
		}
	case "pg_namespace":
		list, _ := f.view.Schemas(f.ctx, f.view.CurrentDatabase())
		for _, s := range list {
			if uint32(s.ID) == oid {
				return s.Comment
			}
		}
	case "pg_database":
		list, _ := f.view.Databases(f.ctx)
		for _, d := range catalog.WithTemplates(list) {
			if uint32(d.ID) == oid {
				return d.Comment
			}
		}
	case "pg_authid":
		list, _ := f.view.Users(f.ctx)
		for _, u := range list {
			if uint32(u.ID) == oid {
				return u.Comment
			}
		}
	}
	return ""
}

func constraintComment(t *catalog.Table, oid uint32) string {
	for i := range t.Indexes {
		if x := &t.Indexes[i]; uint32(x.OID) == oid {
			return x.ConstraintComment
		}
	}
	for i := range t.Checks {
		if c := &t.Checks[i]; uint32(c.OID) == oid {
			return c.Comment
		}
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; uint32(k.OID) == oid {
			return k.Comment
		}
	}
	return ""
}

// Relation is a relation by its OID, or that of one of its indexes, which is then the second; nil: there is none.
func (f *Functions) Relation(oid uint32) (*catalog.Table, *catalog.Index) {
	if t, ix := f.index(oid); ix != nil {
		return t, ix
	}
	return f.table(oid), nil
}

// options are the storage parameters of a table, as WITH has them.
func options(t *catalog.Table) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(t.Options)) {
		out = append(out, k+"="+t.Options[k])
	}
	for _, o := range protocolOptions(t) {
		if o[0] != catalog.GammaOption {
			o[1] = "'" + o[1] + "'"
		}
		out = append(out, o[0]+"="+o[1])
	}
	if k := t.Inferred(); k != nil {
		out = append(out, catalog.InferRegion+"="+Quote(k.Name))
	}
	return strings.Join(out, ", ")
}

// protocolOptions are the names and values of the storage parameters that say how a table's writes are committed.
func protocolOptions(t *catalog.Table) (out [][2]string) {
	if !t.Protocol.Default() {
		out = append(out, [2]string{catalog.ProtocolOption, t.Protocol.String()})
	}
	if t.Ballots != catalog.UnsaidBallots {
		out = append(out, [2]string{catalog.BallotsOption, t.Ballots.String()})
	}
	if t.Gamma != 0 {
		out = append(out, [2]string{catalog.GammaOption, strconv.Itoa(t.Gamma)})
	}
	return out
}

// database finds a database by its identity; nil if there is none.
func (f *Functions) database(id catalog.ID) *catalog.Database {
	list, _ := f.view.Databases(f.ctx)
	for _, d := range catalog.WithTemplates(list) {
		if d.ID == id {
			return d
		}
	}
	return nil
}

// CreateStatement is SHOW CREATE for a relation.
func (p *Provider) CreateStatement(ctx context.Context, f *Functions, id uint32) (string, error) {
	t := f.table(id)
	if t == nil {
		return "", sqlstate.New(sqlstate.UndefinedTable, "relation with OID %d does not exist", id)
	}
	name := f.qualified(t)
	if t.Materialized {
		return "CREATE MATERIALIZED VIEW " + name + " AS " + f.shown(t.View), nil
	}
	switch t.Kind {
	case catalog.KindView:
		with := ""
		if t.SecurityInvoker() {
			with = " WITH (security_invoker=true)"
		}
		return "CREATE VIEW " + name + with + " AS " + f.shown(t.View), nil
	case catalog.KindSequence:
		s := t.Sequence
		q := "CREATE SEQUENCE " + name + " AS " + s.Type.String() + " MINVALUE " + strconv.FormatInt(s.Min, 10) + " MAXVALUE " + strconv.FormatInt(s.Max, 10) +
			" INCREMENT BY " + strconv.FormatInt(s.Increment, 10) + " START WITH " + strconv.FormatInt(s.Start, 10)
		if s.Cycle {
			q += " CYCLE"
		}
		return q, nil
	}
	var lines []string
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Hidden && c.OnUpdate == "" || c.State != catalog.Public {
			continue // a hidden region column comes with the locality
		}
		l := Quote(c.Name) + " " + f.typeName(c.Type)
		if c.Hidden {
			l += " NOT VISIBLE"
		}
		if c.NotNull {
			l += " NOT NULL"
		}
		switch {
		case c.Generated != "":
			l += " GENERATED ALWAYS AS (" + parse.Display(f.shown(c.Generated), true) + ") STORED"
		case c.Identity == 'a':
			l += " GENERATED ALWAYS AS IDENTITY"
		case c.Identity == 'd':
			l += " GENERATED BY DEFAULT AS IDENTITY"
		case c.Default != "":
			l += " DEFAULT " + f.shown(defaultText(c))
		}
		if c.OnUpdate != "" {
			l += " ON UPDATE " + f.shown(c.OnUpdate)
		}
		lines = append(lines, l)
	}
	var after []string
	for i := range t.Indexes {
		x := &t.Indexes[i]
		switch {
		case !shownIndex(t, x):
		case x.Primary || x.Constraint:
			lines = append(lines, "CONSTRAINT "+Quote(x.Name)+" "+keyConstraint(t, x))
		default:
			after = append(after, f.indexDef(t, x))
		}
	}
	for i := range t.Foreign {
		if t.InterleavedBy(t.Foreign[i].ID) {
			continue // it comes with INTERLEAVE IN PARENT
		}
		lines = append(lines, "CONSTRAINT "+Quote(t.Foreign[i].Name)+" "+f.foreignConstraint(t, &t.Foreign[i]))
	}
	for i := range t.Checks {
		if t.Checks[i].OID == 0 {
			continue // the user did not write it
		}
		lines = append(lines, "CONSTRAINT "+Quote(t.Checks[i].Name)+" "+f.checkConstraint(&t.Checks[i], true))
	}
	q := "CREATE TABLE " + name + " (\n\t" + strings.Join(lines, ",\n\t") + "\n)"
	if len(t.Indexes) > 0 { // a relation that is computed has none
		q += f.partitionBy(t, t.Primary())
	}
	if with := options(t); with != "" {
		q += " WITH (" + with + ")"
	}
	q += f.interleaved(t)
	if l := locality(f.database(t.Database), t); l != "" {
		q += " LOCALITY " + l
	}
	for _, a := range append(after, f.partitionsAndZones(t)...) {
		q += ";\n" + a
	}
	return q, nil
}
