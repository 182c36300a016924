package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func (b *builder) createSequence(n *tree.CreateSequence) Statement {
	s := &CreateSequence{IfNotExists: n.IfNotExists}
	s.Name, s.Temporary = b.newRelation(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName), n.Persistence.IsTemporary())
	s.Definition = catalog.Sequence{Type: types.Int8, Increment: 1, Cache: 1}
	o := b.sequenceOptions(n.Options, &s.Definition, true)
	s.OwnerTable, s.OwnerColumn, s.Restart = o.table, o.column, o.restart
	return s
}

func (b *builder) alterSequence(n *tree.AlterSequence) Statement {
	t := b.alterTarget(n.Name, n.IfExists)
	if t == nil {
		return &AlterSequence{Notices: b.alter(nil, n.Name).Notices}
	}
	if t.Kind != catalog.KindSequence {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a sequence", t.Name)
	}
	a := &AlterSequence{Table: t, Definition: *t.Sequence}
	o := b.sequenceOptions(n.Options, &a.Definition, false)
	a.Restart, a.OwnerTable, a.OwnerColumn, a.OwnerNone, a.Late = o.restart, o.table, o.column, o.none, o.late
	return a
}

type sequenceOwner struct {
	table   *catalog.Table
	column  string
	none    bool
	restart *int64
	late    error // of an option that is checked after RESTART
}

// sequenceOptions applies options to a definition and fills in the defaults. The bounds of a RESTART are checked later, when the sequence's
// value is known.
func (b *builder) sequenceOptions(opts tree.SequenceOptions, d *catalog.Sequence, create bool) sequenceOwner {
	var o sequenceOwner
	given := b.givenOptions(opts)
	resetMin, resetMax := create, create
	if opt := given[tree.SeqOptAs]; opt != nil && opt.AsIntegerType != nil {
		t := b.grammarType(opt.AsIntegerType)
		if create {
			d.Type = t
		} else {
			RetypeSequence(d, t)
		}
	}
	if opt := given[tree.SeqOptIncrement]; opt != nil {
		if d.Increment = *opt.IntVal; d.Increment == 0 {
			b.fail(sqlstate.InvalidParameterValue, nil, "INCREMENT must not be zero")
		}
	}
	if opt := given[tree.SeqOptCycle]; opt != nil {
		d.Cycle = opt.Name == tree.SeqOptCycle
	}
	lo, hi := intRange(d.Type)
	if opt := given[tree.SeqOptMaxValue]; opt != nil {
		if resetMax = opt.IntVal == nil; !resetMax {
			d.Max = *opt.IntVal
		}
	}
	if resetMax {
		if d.Max = hi; d.Increment < 0 {
			d.Max = -1
		}
	}
	if opt := given[tree.SeqOptMinValue]; opt != nil {
		if resetMin = opt.IntVal == nil; !resetMin {
			d.Min = *opt.IntVal
		}
	}
	if resetMin {
		if d.Min = 1; d.Increment < 0 {
			d.Min = lo
		}
	}
	switch {
	case d.Max > hi || d.Max < lo:
		b.fail(sqlstate.InvalidParameterValue, nil, "MAXVALUE (%d) is out of range for sequence data type %s", d.Max, d.Type.Name())
	case d.Min < lo || d.Min > hi:
		b.fail(sqlstate.InvalidParameterValue, nil, "MINVALUE (%d) is out of range for sequence data type %s", d.Min, d.Type.Name())
	case d.Min >= d.Max:
		b.fail(sqlstate.InvalidParameterValue, nil, "MINVALUE (%d) must be less than MAXVALUE (%d)", d.Min, d.Max)
	}
	if opt := given[tree.SeqOptStart]; opt != nil {
		d.Start = *opt.IntVal
	} else if create {
		if d.Start = d.Min; d.Increment < 0 {
			d.Start = d.Max
		}
	}
	switch {
	case d.Start < d.Min:
		b.fail(sqlstate.InvalidParameterValue, nil, "START value (%d) cannot be less than MINVALUE (%d)", d.Start, d.Min)
	case d.Start > d.Max:
		b.fail(sqlstate.InvalidParameterValue, nil, "START value (%d) cannot be greater than MAXVALUE (%d)", d.Start, d.Max)
	}
	if opt := given[tree.SeqOptRestart]; opt != nil {
		if o.restart = opt.IntVal; o.restart == nil {
			v := d.Start
			o.restart = &v
		}
		if create {
			check(CheckRestart(d, *o.restart))
		}
	}
	if opt := given[tree.SeqOptCache]; opt != nil {
		if d.Cache = *opt.IntVal; d.Cache < 1 {
			if o.late = sqlstate.New(sqlstate.InvalidParameterValue, "CACHE (%d) must be greater than zero", d.Cache); create {
				raise(o.late)
			}
			return o
		}
	}
	if opt := given[tree.SeqOptOwnedBy]; opt != nil {
		b.ownedBy(opt, &o, create)
	}
	return o
}

// givenOptions are the options by their names; an option and its opposite are one.
func (b *builder) givenOptions(opts tree.SequenceOptions) map[string]*tree.SequenceOption {
	given := map[string]*tree.SequenceOption{}
	for i := range opts {
		opt := &opts[i]
		name := opt.Name
		switch name {
		case tree.SeqOptNoCycle:
			name = tree.SeqOptCycle
		case tree.SeqOptCacheNode:
			name = tree.SeqOptCache
		case tree.SeqOptVirtual:
			b.fail(sqlstate.FeatureNotSupported, nil, "virtual sequences are not supported")
		}
		if given[name] != nil {
			b.fail(sqlstate.SyntaxError, nil, "conflicting or redundant options")
		}
		given[name] = opt
	}
	return given
}

// ownedBy applies OWNED BY.
func (b *builder) ownedBy(opt *tree.SequenceOption, o *sequenceOwner, create bool) {
	if opt.ColumnItemVal == nil {
		o.none = true
		return
	}
	tn := opt.ColumnItemVal.TableName
	if tn == nil {
		raise(sqlstate.New(sqlstate.SyntaxError, "invalid OWNED BY option").WithHint("Specify OWNED BY table.column or OWNED BY NONE."))
	}
	o.late = func() (err error) {
		defer guard(&err)
		o.table = b.alterTarget(tn, false)
		return nil
	}()
	if create {
		check(o.late)
	}
	o.column = string(opt.ColumnItemVal.ColumnName)
}

// RetypeSequence gives a sequence another type. Bounds that were those of the old type become those of the new one.
func RetypeSequence(d *catalog.Sequence, t *types.T) {
	lo, hi := intRange(d.Type)
	newLo, newHi := intRange(t)
	if d.Max == hi {
		d.Max = newHi
	}
	if d.Min == lo {
		d.Min = newLo
	}
	d.Type = t
}

// CheckRestart refuses a number outside of a sequence's bounds.
func CheckRestart(d *catalog.Sequence, v int64) error {
	switch {
	case v < d.Min:
		return sqlstate.New(sqlstate.InvalidParameterValue, "RESTART value (%d) cannot be less than MINVALUE (%d)", v, d.Min)
	case v > d.Max:
		return sqlstate.New(sqlstate.InvalidParameterValue, "RESTART value (%d) cannot be greater than MAXVALUE (%d)", v, d.Max)
	}
	return nil
}

// identitySequence makes the sequence of an identity column. Its name may be among the options: see parse.sequenceName.
func (d *tableDef) identitySequence(column string, t *types.T, opts tree.SequenceOptions) *CreateSequence {
	b := d.b
	if !t.IsInteger() {
		b.fail(sqlstate.InvalidParameterValue, nil, "identity column type must be smallint, integer, or bigint")
	}
	seq := &CreateSequence{Definition: catalog.Sequence{Type: t, Increment: 1, Cache: 1}, OwnerColumn: column}
	seq.Name = Name{Database: d.name.Database, Schema: d.name.Schema}
	var rest tree.SequenceOptions
	for _, o := range opts {
		switch {
		case o.Name == tree.SeqOptOwnedBy && o.ColumnItemVal != nil && seq.Name.Name == "":
			if q := o.ColumnItemVal.TableName; q != nil && q.Parts[0] != d.name.Schema {
				b.fail(sqlstate.ObjectNotInPrerequisite, nil, "sequence must be in same schema as table it is linked to")
			}
			seq.Name.Name = string(o.ColumnItemVal.ColumnName)
			if d.taken(seq.Name.Name) {
				b.fail(sqlstate.DuplicateTable, nil, "relation \"%s\" already exists", seq.Name.Name)
			}
		case o.Name == tree.SeqOptAs:
			b.fail(sqlstate.SyntaxError, nil, "conflicting or redundant options")
		default:
			rest = append(rest, o)
		}
	}
	seq.Restart = b.sequenceOptions(rest, &seq.Definition, true).restart
	if seq.Name.Name == "" {
		seq.Name.Name = pickName(d.taken, "seq", d.name.Name, column)
	}
	d.names[seq.Name.Name] = true
	return seq
}

func intRange(t *types.T) (lo, hi int64) {
	switch t.Kind {
	case types.KindInt2:
		return -1 << 15, 1<<15 - 1
	case types.KindInt4:
		return -1 << 31, 1<<31 - 1
	}
	return -1 << 63, 1<<63 - 1
}
