package scalar

import (
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Resolution is the outcome of overload resolution: the overload, and the type that every actual argument has to
// be coerced to (see Coerce).
type Resolution struct {
	Func   *Overload
	Args   []*types.T
	Return *types.T
}

// AggResolution is the outcome for an aggregate.
type AggResolution struct {
	Agg    *Aggregate
	Args   []*types.T
	Return *types.T
}

// candidate is one overload seen through its declared arguments, expanded for variadics.
type candidate struct {
	index    int
	args     []*types.T
	variadic bool
}

// ResolveFunction chooses the overload of a function for arguments of the given types; Unknown stands for untyped
// literals and parameters. The name is lower case.
func (r *Registry) ResolveFunction(name string, args []*types.T) (Resolution, error) {
	fs := r.funcs[name]
	i, declared, err := r.choose(overloadArgs(fs), args, false, func() string { return signature(name, args) }, "function")
	if err = polymorphicUnknown(name, args, err); err != nil {
		return Resolution{}, err
	}
	o := fs[i]
	res := Resolution{Func: o, Args: bindPolymorphic(declared, args)}
	res.Return = o.Return
	if o.ReturnFrom != nil {
		res.Return = o.ReturnFrom(res.Args)
	}
	return res, nil
}

// polymorphicUnknown refuses a polymorphic call whose type would depend on an untyped literal. Functions of anycompatible
// (array_append and its like) take such literals as text. err is the error of the resolution.
func polymorphicUnknown(name string, args []*types.T, err error) error {
	if len(args) == 0 || args[0].Kind != types.KindUnknown || sqlstate.Is(err, sqlstate.UndefinedFunction) {
		return err
	}
	switch name {
	case "array_agg", "unnest":
		return sqlstate.New(sqlstate.AmbiguousFunction, "function %s is not unique", signature(name, args)).
			WithHint("Could not choose a best candidate function. You might need to add explicit type casts.")
	case "array_dims", "array_fill", "array_length", "array_lower", "array_upper", "array_ndims", "array_to_json", "array_to_string",
		"cardinality", "generate_subscripts", "trim_array", "to_json", "to_jsonb", "json_agg", "jsonb_agg":
		return sqlstate.New(sqlstate.DatatypeMismatch, "could not determine polymorphic type because input has type unknown")
	}
	return err
}

// ResolveOperator chooses the overload of an operator; one argument means a prefix operator. Comparisons are not
// operators here: use ResolveCompare.
func (r *Registry) ResolveOperator(op string, args []*types.T) (Resolution, error) {
	fs := r.ops[op]
	i, declared, err := r.choose(overloadArgs(fs), args, true, func() string { return operatorText(op, args) }, "operator")
	if err != nil {
		return Resolution{}, err
	}
	o := fs[i]
	res := Resolution{Func: o, Args: bindPolymorphic(declared, args), Return: o.Return}
	if o.ReturnFrom != nil {
		res.Return = o.ReturnFrom(res.Args)
	}
	return res, nil
}

// ResolveAggregate chooses the overload of an aggregate; count(*) has no arguments.
func (r *Registry) ResolveAggregate(name string, args []*types.T) (AggResolution, error) {
	as := r.aggs[name]
	if len(args) == 1 && args[0].Kind == types.KindEnum && (name == "min" || name == "max") {
		for _, a := range as {
			if a.Args[0].Kind == types.KindAnyArray { // which compares elements of any type
				return AggResolution{Agg: a, Args: args, Return: args[0]}, nil
			}
		}
	}
	cands := make([]candidate, len(as))
	for i, a := range as {
		cands[i] = candidate{index: i, args: a.Args}
	}
	i, declared, err := r.choose(cands, args, false, func() string { return signature(name, args) }, "function")
	if err = polymorphicUnknown(name, args, err); err != nil {
		return AggResolution{}, err
	}
	res := AggResolution{Agg: as[i], Args: bindPolymorphic(declared, args), Return: as[i].Return}
	if as[i].ReturnFrom != nil {
		res.Return = as[i].ReturnFrom(res.Args)
	}
	return res, nil
}

// MayReference reports whether a column of a foreign key may refer to a key column of another type, as PostgreSQL has it: an operator of the key's operator family compares
// them, or an implicit cast makes the former the type of the key. So an integer may refer to a numeric, and not the other way round.
func (r *Registry) MayReference(key, column *types.T) bool {
	if _, _, err := r.ResolveCompare(EQ, key, column); err != nil {
		return false
	}
	family := func(t *types.T) int {
		switch t.Kind {
		case types.KindInt2, types.KindInt4, types.KindInt8:
			return 1
		case types.KindFloat4, types.KindFloat8:
			return 2
		case types.KindDate, types.KindTimestamp, types.KindTimestampTZ:
			return 3
		}
		return 0
	}
	f := family(key)
	switch k := key.Kind; { // what the operator class of a key's index takes
	case k == types.KindCIDR:
		key = types.Inet
	case k == types.KindVarChar:
		key = types.Text
	case k >= types.KindOID && k <= types.KindRegRole:
		key = types.OID
	}
	return f != 0 && f == family(column) || types.CanCast(column, key, types.CastImplicit)
}

// ResolveCompare gives the types that the two sides of a comparison are coerced to.
func (r *Registry) ResolveCompare(op CmpOp, left, right *types.T) (lt, rt *types.T, err error) {
	fail := func() error {
		symbol := op.symbol()
		if op == IsDistinct || op == IsNotDistinct {
			symbol = "="
		}
		e := sqlstate.New(sqlstate.UndefinedFunction, "operator does not exist: %s %s %s", left.Name(), symbol, right.Name())
		return e.WithHint("No operator matches the given name and argument types. You might need to add explicit type casts.")
	}
	l, rr := left.Kind, right.Kind
	if l == rr && l != types.KindJSON && !Comparable(left) && !Comparable(right) {
		if l == types.KindTuple && len(left.Fields) == len(right.Fields) {
			for i, f := range left.Fields {
				if f.Kind == types.KindJSON || right.Fields[i].Kind == types.KindJSON {
					return r.ResolveCompare(op, f, right.Fields[i])
				}
			}
		}
		return nil, nil, sqlstate.New(sqlstate.UndefinedFunction, "could not identify an equality operator for type json")
	}
	switch {
	case l == types.KindJSON || rr == types.KindJSON:
		return nil, nil, fail()
	case l == types.KindUnknown && rr == types.KindUnknown:
		return types.Text, types.Text, nil
	case l == types.KindUnknown && rr == types.KindCIDR:
		return types.Inet, right, nil // whose operators cidr uses
	case l == types.KindCIDR && rr == types.KindUnknown:
		return left, types.Inet, nil
	case l == types.KindUnknown:
		return right.Bare(), right, nil
	case rr == types.KindUnknown:
		return left, left.Bare(), nil
	case left.Same(right):
		return left, right, nil
	case l == types.KindTuple && rr == types.KindTuple:
		return left, right, nil
	case left.IsInteger() && right.IsInteger():
		return left, right, nil
	case left.IsReg() && right.IsReg():
		return left, right, nil
	case left.IsReg() && right.IsInteger(): // PostgreSQL has operators for two OIDs only, and a negative integer is one
		return left, types.OID, nil
	case right.IsReg() && left.IsInteger():
		return types.OID, right, nil
	case left.IsReg() && l != types.KindOID && right.IsString():
		return left, left, nil
	case right.IsReg() && rr != types.KindOID && left.IsString():
		return right, right, nil
	case left.IsNumeric() && right.IsNumeric():
		if isFloat(l) || isFloat(rr) {
			if l == types.KindFloat4 && rr == types.KindFloat4 {
				return left, right, nil
			}
			return types.Float8, types.Float8, nil
		}
		return types.Decimal, types.Decimal, nil
	case l == types.KindBPChar && rr == types.KindVarChar, l == types.KindVarChar && rr == types.KindBPChar:
		return types.BPChar, types.BPChar, nil
	case left.IsString() && right.IsString():
		// varchar, text and name hold the same strings; a blank-padded one becomes text without its padding.
		return types.Text, types.Text, nil
	case isDateLike(l) && isDateLike(rr):
		if l == types.KindTimestampTZ || rr == types.KindTimestampTZ {
			return types.TimestampTZ, types.TimestampTZ, nil
		}
		return types.Timestamp, types.Timestamp, nil
	case (l == types.KindTime || l == types.KindTimeTZ) && (rr == types.KindTime || rr == types.KindTimeTZ):
		return types.TimeTZ, types.TimeTZ, nil
	case l == types.KindTime && rr == types.KindInterval || l == types.KindInterval && rr == types.KindTime:
		return types.IntervalType, types.IntervalType, nil
	case left.Phys() == types.PhysNet && right.Phys() == types.PhysNet:
		return left, right, nil
	case left.Phys() == types.PhysMAC && right.Phys() == types.PhysMAC:
		// Each of the two types has operators of its own, and casts to the other.
		e := sqlstate.New(sqlstate.AmbiguousFunction, "operator is not unique: %s %s %s", left.Name(), op.symbol(), right.Name())
		return nil, nil, e.WithHint("Could not choose a best candidate operator. You might need to add explicit type casts.")
	case ElemType(left) != nil && ElemType(right) != nil:
		if l == types.KindArray && rr == types.KindArray {
			return nil, nil, fail()
		}
		if ElemType(left).Same(ElemType(right)) {
			return left, right, nil
		}
	}
	return nil, nil, fail()
}

// Comparable reports whether values of a type have an order and an equality: json has none, nor has a type that
// contains it.
func Comparable(t *types.T) bool {
	switch t.Kind {
	case types.KindJSON:
		return false
	case types.KindArray:
		return t.Elem == nil || Comparable(t.Elem)
	case types.KindTuple:
		for _, f := range t.Fields {
			if !Comparable(f) {
				return false
			}
		}
	}
	return true
}

func isFloat(k types.Kind) bool { return k == types.KindFloat4 || k == types.KindFloat8 }

func isDateLike(k types.Kind) bool {
	return k == types.KindDate || k == types.KindTimestamp || k == types.KindTimestampTZ
}

func overloadArgs(fs []*Overload) []candidate {
	cands := make([]candidate, len(fs))
	for i, f := range fs {
		cands[i] = candidate{index: i, args: f.Args, variadic: f.Variadic}
	}
	return cands
}

func signature(name string, args []*types.T) string {
	var b strings.Builder
	b.WriteString(name)
	b.WriteByte('(')
	for i, a := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.Name())
	}
	b.WriteByte(')')
	return b.String()
}

func operatorText(op string, args []*types.T) string {
	if len(args) == 1 {
		return op + " " + args[0].Name()
	}
	return args[0].Name() + " " + op + " " + args[1].Name()
}

// choose follows PostgreSQL's rules (manual, chapter 10): an exact match; then those that implicit casts can reach,
// most exact arguments first, then most preferred types, then unknown arguments resolved by category.
func (r *Registry) choose(all []candidate, args []*types.T, operator bool, text func() string, what string) (int, []*types.T, error) {
	undefined := func() error {
		e := sqlstate.New(sqlstate.UndefinedFunction, "%s does not exist: %s", what, text())
		if what == "function" {
			e.Message = "function " + text() + " does not exist"
		}
		name := "No " + what + " matches the given name and argument types. You might need to add explicit type casts."
		if operator && len(args) == 1 {
			name = "No operator matches the given name and argument type. You might need to add an explicit type cast."
		}
		return e.WithHint("%s", name)
	}
	cands := make([]candidate, 0, len(all))
	for _, c := range all {
		switch {
		case len(c.args) == len(args) && !c.variadic:
		case c.variadic && len(args) >= len(c.args):
			expanded := append([]*types.T(nil), c.args...)
			last := expanded[len(expanded)-1]
			for len(expanded) < len(args) {
				expanded = append(expanded, last)
			}
			c.args = expanded
		default:
			continue
		}
		cands = append(cands, c)
	}
	// Rule 2: exact match. For an operator with one unknown side, assume the type of the other.
	exact := func(in []*types.T) (candidate, bool) {
		for _, c := range cands {
			ok := true
			for i, t := range in {
				if !c.args[i].Same(t) {
					ok = false
					break
				}
			}
			if ok {
				return c, true
			}
		}
		return candidate{}, false
	}
	if c, ok := exact(args); ok {
		return c.index, c.args, nil
	}
	if operator && len(args) == 2 {
		if args[0].Kind == types.KindUnknown && args[1].Kind != types.KindUnknown {
			if c, ok := exact([]*types.T{args[1].Bare(), args[1]}); ok {
				return c.index, c.args, nil
			}
		} else if args[1].Kind == types.KindUnknown && args[0].Kind != types.KindUnknown {
			if c, ok := exact([]*types.T{args[0], args[0].Bare()}); ok {
				return c.index, c.args, nil
			}
		}
	}
	// Drop those that implicit casts cannot reach.
	kept := cands[:0]
	for _, c := range cands {
		ok := true
		for i, t := range args {
			if t.Kind != types.KindUnknown && !types.CanCast(t, c.args[i], types.CastImplicit) {
				ok = false
				break
			}
			if operator && c.args[i].Kind == types.KindAny && ElemType(t) != nil {
				ok = false // text || anything takes no arrays
				break
			}
		}
		if ok && consistentPolymorphic(c.args, args) {
			kept = append(kept, c)
		}
	}
	cands = kept
	if len(cands) == 0 {
		return 0, nil, undefined()
	}
	best := func(score func(c candidate) int) {
		top := -1
		var out []candidate
		for _, c := range cands {
			s := score(c)
			if s > top {
				top, out = s, out[:0]
			}
			if s == top {
				out = append(out, c)
			}
		}
		cands = out
	}
	if len(cands) > 1 {
		best(func(c candidate) int {
			n := 0
			for i, t := range args {
				if t.Kind != types.KindUnknown && c.args[i].Same(t) {
					n++
				}
			}
			return n
		})
	}
	if len(cands) > 1 {
		best(func(c candidate) int {
			n := 0
			for i, t := range args {
				if t.Kind != types.KindUnknown && (c.args[i].Same(t) ||
					c.args[i].Preferred() && c.args[i].Category() == t.Category()) {
					n++
				}
			}
			return n
		})
	}
	if len(cands) > 1 {
		cands = byCategory(cands, args)
	}
	if len(cands) > 1 {
		// All known arguments of one type: assume it for the unknown ones.
		var known *types.T
		uniform, unknown := true, false
		for _, t := range args {
			if t.Kind == types.KindUnknown {
				unknown = true
			} else if known == nil {
				known = t
			} else if !known.Same(t) {
				uniform = false
			}
		}
		if known != nil && uniform && unknown {
			var out []candidate
			assumed := make([]*types.T, len(args))
			for i := range assumed {
				assumed[i] = known
			}
			for _, c := range cands {
				ok := consistentPolymorphic(c.args, assumed)
				for i := range args {
					if !types.CanCast(known, c.args[i], types.CastImplicit) {
						ok = false
					}
				}
				if ok {
					out = append(out, c)
				}
			}
			if len(out) == 1 {
				cands = out
			}
		}
	}
	if len(cands) > 1 {
		// A non-variadic form beats a variadic one.
		var out []candidate
		for _, c := range cands {
			if !c.variadic {
				out = append(out, c)
			}
		}
		if len(out) == 1 {
			cands = out
		}
	}
	if len(cands) > 1 {
		e := sqlstate.New(sqlstate.AmbiguousFunction, "%s is not unique: %s", what, text())
		if what == "function" {
			e.Message = "function " + text() + " is not unique"
		}
		return 0, nil, e.WithHint("Could not choose a best candidate %s. You might need to add explicit type casts.", what)
	}
	return cands[0].index, cands[0].args, nil
}

// byCategory resolves unknown arguments: string if any candidate takes one, else the category all share. If one of them cannot be
// resolved in this way, none is.
func byCategory(cands []candidate, args []*types.T) []candidate {
	cats, preferred := make([]byte, len(args)), make([]bool, len(args))
	for i, t := range args {
		if t.Kind != types.KindUnknown {
			continue
		}
		conflict := false
		for _, c := range cands {
			k := c.args[i].Category()
			if k == 'S' {
				cats[i], conflict = 'S', false
				break
			}
			if cats[i] == 0 {
				cats[i] = k
			} else if cats[i] != k {
				conflict = true
			}
		}
		if conflict {
			return cands
		}
		for _, c := range cands {
			preferred[i] = preferred[i] || c.args[i].Category() == cats[i] && c.args[i].Preferred()
		}
	}
	var out []candidate
	for _, c := range cands {
		ok := true
		for i := range args {
			ok = ok && (cats[i] == 0 || c.args[i].Category() == cats[i] && (!preferred[i] || c.args[i].Preferred()))
		}
		if ok {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return cands
	}
	return out
}

// consistentPolymorphic reports whether anyelement and anyarray can stand for one type throughout.
func consistentPolymorphic(declared, args []*types.T) bool {
	var elem *types.T
	hasArray := false
	for _, d := range declared {
		hasArray = hasArray || d.Kind == types.KindAnyArray
	}
	for i, d := range declared {
		if i >= len(args) || args[i].Kind == types.KindUnknown {
			continue
		}
		var e *types.T
		switch d.Kind {
		case types.KindAnyElement:
			e = args[i]
			if hasArray && ElemType(e) != nil {
				return false // there are no arrays of arrays
			}
		case types.KindAnyArray:
			if e = ElemType(args[i]); e == nil {
				return false
			}
		default:
			continue
		}
		if elem == nil {
			elem = e
		} else if types.Common(elem, e) == nil {
			return false
		}
	}
	return true
}

// bindPolymorphic replaces anyelement and anyarray by the types of the call, and "any" by the argument's own type.
func bindPolymorphic(declared, args []*types.T) []*types.T {
	out := append([]*types.T(nil), declared...)
	elem := (*types.T)(nil)
	for i, d := range declared {
		if d.Kind == types.KindAnyElement || d.Kind == types.KindAnyArray {
			elem = elementOf(declared, args)
			break
		}
		_ = i
	}
	for i, d := range out {
		switch d.Kind {
		case types.KindAny:
			if out[i] = args[i]; out[i].Kind == types.KindUnknown {
				out[i] = types.Any // a literal is text then, and a parameter stays without a type
			}
		case types.KindTuple:
			if args[i].Kind == types.KindTuple {
				out[i] = args[i]
			}
		case types.KindAnyElement:
			if elem != nil {
				out[i] = elem
			} else {
				out[i] = types.Text
			}
		case types.KindAnyArray:
			switch {
			case args[i].Kind == types.KindInt2Vector || args[i].Kind == types.KindOIDVector:
				out[i] = args[i]
			case elem != nil:
				out[i] = types.ArrayOf(elem)
			default:
				out[i] = types.TextArray
			}
		}
	}
	return out
}

func (op CmpOp) symbol() string {
	switch op {
	case EQ:
		return "="
	case NE:
		return "<>"
	case LT:
		return "<"
	case LE:
		return "<="
	case GT:
		return ">"
	case GE:
		return ">="
	case IsDistinct:
		return "IS DISTINCT FROM"
	}
	return "IS NOT DISTINCT FROM"
}

// Commute is the operator with the sides exchanged.
func (op CmpOp) Commute() CmpOp {
	switch op {
	case LT:
		return GT
	case LE:
		return GE
	case GT:
		return LT
	case GE:
		return LE
	}
	return op
}

// Negate is the operator that is true where op is false (neither is true of NULL for the first six).
func (op CmpOp) Negate() CmpOp {
	return [...]CmpOp{EQ: NE, NE: EQ, LT: GE, LE: GT, GT: LE, GE: LT, IsDistinct: IsNotDistinct, IsNotDistinct: IsDistinct}[op]
}

// String is the SQL spelling.
func (op CmpOp) String() string { return op.symbol() }
