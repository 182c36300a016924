package bind

import (
	"strings"

	"context"
	"strconv"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	gtypes "github.com/cockroachdb/cockroachdb-parser/pkg/sql/types"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func itoa(i int) string { return strconv.Itoa(i) }

// typeRef converts the grammar's type reference.
func (b *builder) typeRef(ref tree.ResolvableTypeReference) *types.T {
	switch r := ref.(type) {
	case *gtypes.T:
		return b.grammarType(r)
	case *tree.ArrayTypeReference:
		defer unplaced(func(e *sqlstate.Error) {
			if name, ok := strings.CutSuffix(e.Message, "\" does not exist"); ok && e.Code == sqlstate.UndefinedObject {
				e.Message = name + "[]\" does not exist"
			}
		})
		return types.ArrayOf(b.typeRef(r.ElementType))
	case *tree.UnresolvedObjectName:
		name := r.Parts[0]
		bare := r.NumParts == 1 || r.Parts[1] == "pg_catalog" && parse.OtherDialect(name)
		if r.NumParts == 1 || r.Parts[1] == "pg_catalog" {
			// The grammar's keywords for types (int, decimal) are not among these names, so an "int" in quotes is no type. Stored texts of earlier
			// versions have such names.
			find := types.FromCatalogName
			if b.home != nil {
				find = types.FromName
			}
			if t, ok := find(name); ok {
				return t
			}
			if alias, ok := domainTypes(name); ok {
				return alias
			}
		} else if r.Parts[1] == "information_schema" {
			if alias, ok := domainTypes(name); ok {
				return alias
			}
		}
		if bare {
			if t := b.enumType("", name); t != nil {
				return t
			}
		} else if t := b.enumType(r.Parts[1], name); t != nil {
			return t
		}
		if t := b.rowType(r); t != nil {
			return t
		}
		if bare || r.Parts[1] == "pg_catalog" {
			b.lackType(name, r)
		}
		shown := name
		if !bare {
			shown = r.Parts[1] + "." + name
		}
		b.fail(sqlstate.UndefinedObject, r, "type \"%s\" does not exist", shown)
	case *tree.OIDTypeReference:
		if t, ok := types.FromOID(uint32(r.OID)); ok {
			return t
		}
		if t := b.typeByOID(uint32(r.OID)); t != nil {
			return t
		}
	}
	b.fail(sqlstate.UndefinedObject, nil, "type \"%s\" does not exist", ref.SQLString())
	return nil
}

// TypeNamed finds a type by a name that the parser could not resolve.
func (b *Binder) TypeNamed(ctx context.Context, n parse.NamedType) (t *types.T, err error) {
	defer guard(&err)
	missing := sqlstate.New(sqlstate.UndefinedObject, "type \"%s\" does not exist", n.Text).At(n.Pos)
	x, stmt, err := parse.ParseExpr("NULL::" + n.Text)
	if err != nil {
		return nil, missing
	}
	c, ok := x.(*tree.CastExpr)
	if !ok {
		return nil, missing
	}
	bd := b.newBuilder(ctx, stmt)
	defer unplaced(func(e *sqlstate.Error) { e.Position = n.Pos })
	t = bd.typeRef(c.Type)
	return t, nil
}

// unplaced is deferred to give errors another position than that in the text that is bound.
func unplaced(place func(*sqlstate.Error)) {
	switch r := recover().(type) {
	case nil:
	case bailout:
		if e, ok := r.err.(*sqlstate.Error); ok {
			place(e)
		}
		panic(r)
	default:
		panic(r)
	}
}

// rowType is the type of a relation's rows, or nil.
func (b *builder) rowType(r *tree.UnresolvedObjectName) *types.T {
	if b.View == nil || r.NumParts > 2 {
		return nil
	}
	t := b.lookupTable("", r.Parts[1], r.Parts[0])
	if t == nil && r.NumParts == 1 && r.Parts[0] != "" && r.Parts[0][0] == '_' {
		if t = b.lookupTable("", "", r.Parts[0][1:]); t != nil && t.RowArrayOID() != 0 && t.Kind != catalog.KindSequence {
			b.uses(t)
			b.text.rowType(t)
			return types.ArrayOf(b.rowOf(t))
		}
		return nil
	}
	if t == nil || t.Kind == catalog.KindSequence {
		return nil
	}
	b.uses(t)
	b.text.rowType(t)
	return b.rowOf(t)
}

// rowOf is the type of a relation's rows.
func (b *builder) rowOf(t *catalog.Table) *types.T {
	return t.RowType(b.shownName(t))
}

// typeByOID finds a type that has been made by a statement, the row type of a relation among them; nil if there is none.
func (b *builder) typeByOID(oid uint32) *types.T {
	if t := b.typeByID(oid); t != nil {
		return t
	}
	return b.rowByOID(oid)
}

// rowByOID is the type of a relation's rows by its OID, or that of the arrays of them; nil if there is none. The statement depends on it.
func (b *builder) rowByOID(oid uint32) *types.T {
	t, err := b.View.TableByID(b.ctx, catalog.RowTypeOf(oid))
	if check(err); t == nil || t.Kind == catalog.KindSequence {
		return nil
	}
	b.uses(t)
	b.text.rowType(t)
	if oid == t.RowArrayOID() {
		return types.ArrayOf(b.rowOf(t))
	}
	return b.rowOf(t)
}

// shownName is the name of a relation in messages, with its schema if its name alone does not find it.
func (b *builder) shownName(t *catalog.Table) string {
	name := parse.QuoteIdent(t.Name)
	v, ok := b.View.(interface {
		PeekBare(name string) *catalog.Table
		PeekSchema(id catalog.ID) *catalog.Schema
	})
	if !ok {
		return name
	}
	if got := v.PeekBare(t.Name); got == nil || got.ID != t.ID {
		if t.Schema == catalog.InformationSchemaID {
			return "information_schema." + name
		}
		if s := v.PeekSchema(t.Schema); s != nil {
			return parse.QuoteIdent(s.Name) + "." + name
		}
	}
	return name
}

// domainTypes has the names of PostgreSQL's types that are represented by another type here.
func domainTypes(name string) (*types.T, bool) {
	switch name {
	case "cstring", "sql_identifier", "character_data", "yes_or_no", "pg_node_tree":
		return types.Text, true
	case "cardinal_number", "cid":
		return types.Int4, true
	case "xid":
		return types.Int8, true
	}
	return nil, false
}

// grammarType is the type that the grammar library calls t.
func (b *builder) grammarType(t *gtypes.T) *types.T {
	switch t.Family() {
	case gtypes.BoolFamily:
		return types.Bool
	case gtypes.IntFamily:
		switch t.Width() {
		case 16:
			return types.Int2
		case 32:
			return types.Int4
		}
		return types.Int8
	case gtypes.FloatFamily:
		if t.Width() == 32 {
			return types.Float4
		}
		return types.Float8
	case gtypes.DecimalFamily:
		if t.Precision() == 0 {
			return types.Decimal
		}
		precision, scale := parse.NumericModifier(t.Precision(), t.Scale())
		if precision > 1000 {
			b.fail(sqlstate.InvalidParameterValue, nil, "NUMERIC precision %d must be between 1 and 1000", precision)
		}
		return &types.T{Kind: types.KindDecimal, Precision: precision, Scale: scale}
	case gtypes.DateFamily:
		return types.Date
	case gtypes.TimeFamily:
		return timeType(types.Time, t)
	case gtypes.TimeTZFamily:
		return timeType(types.TimeTZ, t)
	case gtypes.TimestampFamily:
		return timeType(types.Timestamp, t)
	case gtypes.TimestampTZFamily:
		return timeType(types.TimestampTZ, t)
	case gtypes.IntervalFamily:
		return intervalType(t)
	case gtypes.StringFamily, gtypes.CollatedStringFamily:
		return stringType(t)
	case gtypes.BytesFamily:
		return types.Bytes
	case gtypes.INetFamily:
		return types.Inet
	case gtypes.UuidFamily:
		return types.UUID
	case gtypes.JsonFamily:
		if uint32(t.Oid()) == types.JSON.OID() {
			return types.JSON
		}
		return types.JSONB
	case gtypes.ArrayFamily:
		switch uint32(t.Oid()) {
		case types.Int2Vector.OID():
			return types.Int2Vector
		case types.OIDVector.OID():
			return types.OIDVector
		}
		return types.ArrayOf(b.grammarType(t.ArrayContents()))
	case gtypes.VoidFamily:
		return types.Void
	case gtypes.UnknownFamily:
		return types.Unknown
	case gtypes.OidFamily:
		if r, ok := types.FromOID(uint32(t.Oid())); ok {
			return r
		}
		return types.OID
	case gtypes.TupleFamily:
		return types.Record
	}
	b.lackType(strings.ToLower(t.PGName()), nil)
	b.fail(sqlstate.FeatureNotSupported, nil, "type %s is not supported", t.SQLStandardName())
	return nil
}

// stringType is a type of strings.
func stringType(t *gtypes.T) *types.T {
	switch uint32(t.Oid()) {
	case types.VarChar.OID():
		if t.Width() > 0 {
			return &types.T{Kind: types.KindVarChar, Width: t.Width()}
		}
		return types.VarChar
	case types.BPChar.OID():
		if t.Width() > 0 {
			return &types.T{Kind: types.KindBPChar, Width: t.Width()}
		}
		return types.BPChar
	case types.Char.OID():
		return types.Char
	case types.Name.OID():
		return types.Name
	}
	if t.Width() > 0 {
		return &types.T{Kind: types.KindVarChar, Width: t.Width()}
	}
	return types.Text
}

// intervalType is interval, with its fields and its precision.
func intervalType(t *gtypes.T) *types.T {
	m, err := t.IntervalTypeMetadata()
	if err != nil {
		return types.IntervalType
	}
	precision := int32(-1)
	if m.PrecisionIsSet {
		precision = m.Precision
	}
	fields := intervalField(m.DurationField.DurationType)
	if from := intervalField(m.DurationField.FromDurationType); from != "" && from != fields {
		fields = from + " to " + fields
	}
	if it := types.IntervalOf(fields, precision); it != nil {
		return it
	}
	return types.IntervalType
}

func timeType(bare *types.T, t *gtypes.T) *types.T {
	if t.InternalType.TimePrecisionIsSet {
		return &types.T{Kind: bare.Kind, Precision: t.Precision()}
	}
	return bare
}

// intervalField is the name of a field of INTERVAL '1' DAY, or empty.
func intervalField(d gtypes.IntervalDurationType) string {
	switch d {
	case gtypes.IntervalDurationType_YEAR:
		return "year"
	case gtypes.IntervalDurationType_MONTH:
		return "month"
	case gtypes.IntervalDurationType_DAY:
		return "day"
	case gtypes.IntervalDurationType_HOUR:
		return "hour"
	case gtypes.IntervalDurationType_MINUTE:
		return "minute"
	case gtypes.IntervalDurationType_SECOND:
		return "second"
	}
	return ""
}
