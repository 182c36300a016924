package virtual

import (
	"slices"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func dotted(parts []string) string { return strings.Join(parts, ".") }

// collations are the OIDs of pg_collation's rows.
var collations = []struct {
	oid       uint32
	name, loc string
	provider  string
}{{100, "default", "", "d"}, {950, "C", "C", "c"}, {951, "POSIX", "POSIX", "c"}}

// operator is one of PostgreSQL's operators, of types that Meridian has.
type operator struct {
	oid, commutator, negator uint32
	name, code               string
	left, right, result      *types.T // left is nil of a prefix operator
	merges, hashes           bool
}

// castRow is one of PostgreSQL's casts.
type castRow struct {
	oid             uint32
	source, target  *types.T
	function        string
	context, method string
}

// one is the only part of a name of an object without a schema, such as a role.
func one(name string) (string, error) {
	parts, err := SplitName(name)
	if err != nil {
		return "", err
	}
	if len(parts) != 1 {
		return "", sqlstate.New(sqlstate.InvalidName, "invalid name syntax")
	}
	return parts[0], nil
}

// builtin checks the schema of a name of an object that only pg_catalog has, and returns its last part; found is false if the
// schema is another one.
func (f *Functions) builtin(parts []string) (last string, found bool, err error) {
	last = parts[len(parts)-1]
	switch len(parts) {
	case 1:
		return last, true, nil
	case 3:
		if parts[0] != f.view.CurrentDatabase() {
			return "", false, sqlstate.New(sqlstate.FeatureNotSupported, "cross-database references are not implemented: %s", dotted(parts))
		}
	case 2:
	default:
		return "", false, sqlstate.New(sqlstate.SyntaxError, "improper qualified name (too many dotted names): %s", dotted(parts))
	}
	schema := parts[len(parts)-2]
	s, err := f.view.Schema(f.ctx, f.view.CurrentDatabase(), schema)
	if err == nil && s == nil {
		err = sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", schema)
	}
	return last, schema == "pg_catalog", err
}

// ResolveReg implements system.Environment.
func (f *Functions) ResolveReg(kind types.Kind, name string) (uint32, error) {
	switch kind {
	case types.KindRegType:
		return f.typeNamed(name)
	case types.KindRegClass:
		parts, err := SplitName(name)
		if err != nil {
			return 0, err
		}
		id, err := f.relation(parts)
		if err == nil && id == 0 {
			if len(parts) == 3 {
				parts = parts[1:]
			}
			err = sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", dotted(parts))
		}
		return id, err
	case types.KindRegProc:
		return f.function(name)
	case types.KindRegProcedure:
		return f.functionWithArguments(name)
	case types.KindRegOper, types.KindRegOperator:
		return f.operator(kind, name)
	case types.KindRegCollation, types.KindRegConfig, types.KindRegDictionary:
		parts, err := SplitName(name)
		if err != nil {
			return 0, err
		}
		last, found, err := f.builtin(parts)
		if err != nil {
			return 0, err
		}
		for i := range collations {
			if c := &collations[i]; found && kind == types.KindRegCollation && c.name == last {
				return c.oid, nil
			}
		}
		switch kind {
		case types.KindRegConfig:
			return 0, sqlstate.New(sqlstate.UndefinedObject, "text search configuration \"%s\" does not exist", dotted(parts))
		case types.KindRegDictionary:
			return 0, sqlstate.New(sqlstate.UndefinedObject, "text search dictionary \"%s\" does not exist", dotted(parts))
		}
		return 0, sqlstate.New(sqlstate.UndefinedObject, "collation \"%s\" for encoding \"UTF8\" does not exist", dotted(parts))
	case types.KindRegNamespace:
		last, err := one(name)
		if err != nil {
			return 0, err
		}
		s, err := f.view.Schema(f.ctx, f.view.CurrentDatabase(), last)
		if err != nil {
			return 0, err
		}
		if s == nil {
			return 0, sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", last)
		}
		return uint32(s.ID), nil
	case types.KindRegRole:
		last, err := one(name)
		if err != nil {
			return 0, err
		}
		users, err := f.view.Users(f.ctx)
		if err != nil {
			return 0, err
		}
		for _, u := range users {
			if u.Name == last {
				return uint32(u.ID), nil
			}
		}
		return 0, sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", last)
	}
	return 0, sqlstate.New(sqlstate.FeatureNotSupported, "names of this kind are not supported")
}

// typeNamed finds a type that regtype's input names.
func (f *Functions) typeNamed(name string) (uint32, error) {
	t, err := f.typeByName(name)
	if err != nil {
		return 0, err
	}
	return t.OID(), nil
}

func (f *Functions) typeByName(name string) (*types.T, error) {
	n, err := types.ParseTypeName(name)
	if err != nil {
		return nil, err
	}
	if t, ok := n.Find(); ok {
		if n.Modified && t.Kind != types.KindArray && !modified(t) {
			return nil, sqlstate.New(sqlstate.SyntaxError, "type modifier is not allowed for type \"%s\"", n.String())
		}
		return t, nil
	}
	if len(n.Parts) > 1 {
		if _, _, err := f.builtin(n.Parts); err != nil {
			return nil, err
		}
	}
	quoted := make([]string, 0, 2)
	for _, p := range n.Parts[max(0, len(n.Parts)-2):] {
		quoted = append(quoted, Quote(p))
	}
	found := dotted(quoted)
	if n.Array {
		found += "[]"
	}
	if t := f.enumNamed(found); t != nil {
		return t, nil
	}
	if t := f.rowNamed(n.Parts, n.Array); t != nil {
		return t, nil
	}
	shown := n.String()
	if n.Array {
		shown += "[]"
	}
	return nil, sqlstate.New(sqlstate.UndefinedObject, "type \"%s\" does not exist", shown)
}

// modified reports whether a type takes a modifier.
func modified(t *types.T) bool {
	switch t.Kind {
	case types.KindVarChar, types.KindBPChar, types.KindDecimal, types.KindTime, types.KindTimeTZ, types.KindTimestamp, types.KindTimestampTZ,
		types.KindInterval, types.KindFloat4, types.KindFloat8:
		return true
	}
	return false
}

// candidate is a function or an aggregate as regproc and regprocedure see it.
type candidate struct {
	oid  uint32
	args []*types.T
}

// candidates are the functions of a name. The types' own functions, which can't be called, have no arguments here.
func (f *Functions) candidates(name string) []candidate {
	var list []candidate
	if oid, ok := f.p.o.Catalog.procs[name]; ok {
		list = append(list, candidate{oid: oid})
	}
	if r := f.p.o.Registry; r != nil {
		for _, o := range r.Functions(name) {
			list = append(list, candidate{o.OID, o.Args})
		}
		for _, a := range r.Aggregates(name) {
			list = append(list, candidate{a.OID, a.Args})
		}
	}
	return list
}

// function finds a function by its name alone.
func (f *Functions) function(name string) (uint32, error) {
	parts, err := SplitName(name)
	if err != nil {
		return 0, err
	}
	last, found, err := f.builtin(parts)
	if err != nil {
		return 0, err
	}
	var list []candidate
	if found {
		list = f.candidates(last)
	}
	switch len(list) {
	case 0:
		return 0, sqlstate.New(sqlstate.UndefinedFunction, "function \"%s\" does not exist", name)
	case 1:
		return list[0].oid, nil
	}
	return 0, sqlstate.New(sqlstate.AmbiguousFunction, "more than one function named \"%s\"", name)
}

// signature divides name(type, type).
func signature(text string) (name []string, args []string, err error) {
	bad := func(m string) error { return sqlstate.New(sqlstate.InvalidTextRepresentation, "%s", m) }
	open, quoted := 0, false
	for ; open < len(text) && (quoted || text[open] != '('); open++ {
		if text[open] == '"' {
			quoted = !quoted
		}
	}
	if open == len(text) {
		return nil, nil, bad("expected a left parenthesis")
	}
	list := strings.TrimRight(text[open+1:], " \t\n\r\v\f")
	list, closed := strings.CutSuffix(list, ")")
	if !closed {
		return nil, nil, bad("expected a right parenthesis")
	}
	if name, err = SplitName(text[:open]); err != nil || strings.TrimSpace(list) == "" {
		return name, nil, err
	}
	depth, from := 0, 0
	for i := 0; i <= len(list); i++ {
		if i == len(list) || !quoted && depth == 0 && list[i] == ',' {
			arg := strings.TrimSpace(list[from:i])
			if from = i + 1; arg == "" {
				return nil, nil, bad("expected a type name")
			}
			args = append(args, arg)
			continue
		}
		switch list[i] {
		case '"':
			quoted = !quoted
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
	}
	if quoted || depth != 0 {
		return nil, nil, bad("improper type name")
	}
	return name, args, nil
}

func sameTypes(a, b []*types.T) bool {
	return slices.EqualFunc(a, b, func(x, y *types.T) bool { return x == nil && y == nil || x != nil && y != nil && x.OID() == y.OID() })
}

// functionWithArguments finds a function by its name and its arguments' types.
func (f *Functions) functionWithArguments(text string) (uint32, error) {
	parts, args, err := signature(text)
	if err != nil {
		return 0, err
	}
	want := make([]*types.T, len(args))
	for i, a := range args {
		if want[i], err = f.typeByName(a); err != nil {
			return 0, err
		}
	}
	last, found, err := f.builtin(parts)
	if err != nil {
		return 0, err
	}
	if found {
		for _, c := range f.candidates(last) {
			if sameTypes(c.args, want) {
				return c.oid, nil
			}
		}
	}
	return 0, sqlstate.New(sqlstate.UndefinedFunction, "function \"%s\" does not exist", text)
}

// operatorName divides a schema from an operator's signs.
func (f *Functions) operatorName(text string) (string, bool, error) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return strings.TrimSpace(text), true, nil
	}
	parts, err := SplitName(text[:at])
	if err != nil {
		return "", false, err
	}
	return f.builtin(append(parts, strings.TrimSpace(text[at+1:])))
}

// operator finds an operator, as regoper by its name alone.
func (f *Functions) operator(kind types.Kind, text string) (uint32, error) {
	missing := func() (uint32, error) {
		return 0, sqlstate.New(sqlstate.UndefinedFunction, "operator does not exist: %s", text)
	}
	if kind == types.KindRegOper {
		name, found, err := f.operatorName(text)
		if err != nil || !found {
			if err == nil {
				return missing()
			}
			return 0, err
		}
		oid := uint32(0)
		for i := range f.p.o.Catalog.operators {
			if o := &f.p.o.Catalog.operators[i]; o.name == name {
				if oid != 0 {
					return 0, sqlstate.New(sqlstate.AmbiguousFunction, "more than one operator named %s", text)
				}
				oid = o.oid
			}
		}
		if oid == 0 {
			return missing()
		}
		return oid, nil
	}
	open := strings.IndexByte(text, '(')
	if open < 0 {
		return 0, sqlstate.New(sqlstate.InvalidTextRepresentation, "expected a left parenthesis")
	}
	_, args, err := signature("x" + text[open:])
	if err != nil {
		return 0, err
	}
	switch {
	case len(args) == 1:
		return 0, sqlstate.New(sqlstate.UndefinedParameter, "missing argument").WithHint("Use NONE to denote the missing argument of a unary operator.")
	case len(args) != 2:
		return 0, sqlstate.New(sqlstate.TooManyArguments, "too many arguments").WithHint("Provide two argument types for operator.")
	}
	var want [2]*types.T
	for i, a := range args {
		if strings.EqualFold(a, "none") {
			continue
		}
		if want[i], err = f.typeByName(a); err != nil {
			return 0, err
		}
	}
	name, found, err := f.operatorName(text[:open])
	if err != nil {
		return 0, err
	}
	for i := range f.p.o.Catalog.operators {
		if o := &f.p.o.Catalog.operators[i]; found && o.name == name && sameTypes([]*types.T{o.left, o.right}, want[:]) {
			return o.oid, nil
		}
	}
	return missing()
}

// RegName implements system.Environment: the name that a reg* value prints as, empty if there is no such object.
func (f *Functions) RegName(kind types.Kind, oid uint32) string {
	switch kind {
	case types.KindRegClass:
		if t := f.table(oid); t != nil {
			return f.relationName(t)
		}
		if t, x := f.index(oid); x != nil {
			if f.schemaVisible(t.Schema) {
				return Quote(x.Name)
			}
			return Quote(f.schemaName(t.Schema)) + "." + Quote(x.Name)
		}
	case types.KindRegType:
		if t, ok := types.FromOID(oid); ok {
			return t.Bare().Name()
		}
		if t := f.enum(oid); t != nil {
			return f.typeName(t)
		}
		if t := f.table(uint32(catalog.RowTypeOf(oid))); t != nil && t.Kind != catalog.KindSequence {
			if oid != 0 && oid == t.RowArrayOID() {
				return f.relationName(t) + "[]"
			}
			if oid == t.RowTypeOID() {
				return f.relationName(t)
			}
		}
	case types.KindRegProc, types.KindRegProcedure:
		return f.functionName(kind, oid)
	case types.KindRegOper, types.KindRegOperator:
		return f.operatorShown(kind, oid)
	case types.KindRegCollation:
		for i := range collations {
			if c := &collations[i]; c.oid == oid {
				return Quote(c.name)
			}
		}
	case types.KindRegNamespace:
		if n := f.schemaName(catalog.ID(oid)); n != "" {
			return Quote(n)
		}
	case types.KindRegRole:
		users, _ := f.view.Users(f.ctx)
		for _, u := range users {
			if uint32(u.ID) == oid {
				return Quote(u.Name)
			}
		}
	}
	return ""
}

// functionName is a function's name. Without its arguments it is qualified if it is not the only one of that name.
func (f *Functions) functionName(kind types.Kind, oid uint32) string {
	name, args := f.p.o.Catalog.procNames[oid], []*types.T(nil)
	if r := f.p.o.Registry; name == "" && r != nil {
		if o, ok := r.FunctionByOID(oid); ok && !r.IsOperator(o) {
			name, args = o.Name, o.Args
		} else if a := r.AggregateByOID(oid); a != nil {
			name, args = a.Name, a.Args
		}
	}
	if name == "" {
		return ""
	}
	if kind == types.KindRegProcedure {
		return Quote(name) + "(" + typeList(args) + ")"
	}
	if len(f.candidates(name)) > 1 {
		return "pg_catalog." + Quote(name)
	}
	return Quote(name)
}

func typeList(list []*types.T) string {
	names := make([]string, len(list))
	for i, t := range list {
		if names[i] = "NONE"; t != nil {
			names[i] = t.Bare().Name()
		}
	}
	return strings.Join(names, ",")
}

func (f *Functions) operatorShown(kind types.Kind, oid uint32) string {
	list := f.p.o.Catalog.operators
	at, found := slices.BinarySearchFunc(list, oid, func(o operator, oid uint32) int { return int(int64(o.oid) - int64(oid)) })
	if !found {
		return ""
	}
	o := &list[at]
	if kind == types.KindRegOperator {
		return o.name + "(" + typeList([]*types.T{o.left, o.right}) + ")"
	}
	for i := range list {
		if i != at && list[i].name == o.name {
			return "pg_catalog." + o.name
		}
	}
	return o.name
}
