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
	s.OwnerTable, s.OwnerColumn = o.table, o.column
	return s
}

func (b *builder) alterSequence(n *tree.AlterSequence) Statement {
	t := b.alterTarget(n.Name, n.IfExists)
	if t == nil {
		return &AlterSequence{}
	}
	if t.Kind != catalog.KindSequence {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a sequence", t.Name)
	}
	a := &AlterSequence{Table: t, Definition: *t.Sequence}
	o := b.sequenceOptions(n.Options, &a.Definition, false)
	a.Restart, a.OwnerTable, a.OwnerColumn, a.OwnerNone = o.restart, o.table, o.column, o.none
	return a
}

type sequenceOwner struct {
	table   *catalog.Table
	column  string
	none    bool
	restart *int64
}

// sequenceOptions applies options to a definition and fills in what is not given.
func (b *builder) sequenceOptions(opts tree.SequenceOptions, d *catalog.Sequence, create bool) sequenceOwner {
	var o sequenceOwner
	var minGiven, maxGiven, startGiven bool
	restart := false
	for _, opt := range opts {
		val := func() int64 {
			if opt.IntVal == nil {
				return 0
			}
			return *opt.IntVal
		}
		switch opt.Name {
		case tree.SeqOptAs:
			if opt.AsIntegerType != nil {
				old := d.Type
				d.Type = b.grammarType(opt.AsIntegerType)
				if !create && old != nil {
					_, hi := intRange(old)
					if d.Max == hi {
						d.Max = 0
						maxGiven = false
						_, d.Max = intRange(d.Type)
					}
				}
			}
		case tree.SeqOptCycle:
			d.Cycle = true
		case tree.SeqOptNoCycle:
			d.Cycle = false
		case tree.SeqOptCache, tree.SeqOptCacheNode:
			if d.Cache = val(); d.Cache < 1 {
				b.fail(sqlstate.InvalidParameterValue, nil, "CACHE (%d) must be greater than zero", d.Cache)
			}
		case tree.SeqOptIncrement:
			if d.Increment = val(); d.Increment == 0 {
				b.fail(sqlstate.InvalidParameterValue, nil, "INCREMENT must not be zero")
			}
		case tree.SeqOptMinValue:
			if opt.IntVal != nil {
				d.Min, minGiven = val(), true
			}
		case tree.SeqOptMaxValue:
			if opt.IntVal != nil {
				d.Max, maxGiven = val(), true
			}
		case tree.SeqOptStart:
			d.Start, startGiven = val(), true
		case tree.SeqOptRestart:
			restart = true
			if opt.IntVal != nil {
				o.restart = opt.IntVal
			}
		case tree.SeqOptOwnedBy:
			if opt.ColumnItemVal == nil {
				o.none = true
				break
			}
			tn := opt.ColumnItemVal.TableName
			if tn == nil {
				raise(sqlstate.New(sqlstate.SyntaxError, "invalid OWNED BY option").WithHint("Specify OWNED BY table.column or OWNED BY NONE."))
			}
			o.table = b.alterTarget(tn, false)
			o.column = string(opt.ColumnItemVal.ColumnName)
		case tree.SeqOptVirtual:
			b.fail(sqlstate.FeatureNotSupported, nil, "virtual sequences are not supported")
		}
	}
	lo, hi := intRange(d.Type)
	if create {
		if !minGiven {
			d.Min = 1
			if d.Increment < 0 {
				d.Min = lo
			}
		}
		if !maxGiven {
			d.Max = hi
			if d.Increment < 0 {
				d.Max = -1
			}
		}
		if !startGiven {
			d.Start = d.Min
			if d.Increment < 0 {
				d.Start = d.Max
			}
		}
	}
	switch {
	case d.Min < lo:
		b.fail(sqlstate.InvalidParameterValue, nil, "MINVALUE (%d) is out of range for sequence data type %s", d.Min, d.Type.Name())
	case d.Max > hi:
		b.fail(sqlstate.InvalidParameterValue, nil, "MAXVALUE (%d) is out of range for sequence data type %s", d.Max, d.Type.Name())
	case d.Min >= d.Max:
		b.fail(sqlstate.InvalidParameterValue, nil, "MINVALUE (%d) must be less than MAXVALUE (%d)", d.Min, d.Max)
	case d.Start < d.Min:
		b.fail(sqlstate.InvalidParameterValue, nil, "START value (%d) cannot be less than MINVALUE (%d)", d.Start, d.Min)
	case d.Start > d.Max:
		b.fail(sqlstate.InvalidParameterValue, nil, "START value (%d) cannot be greater than MAXVALUE (%d)", d.Start, d.Max)
	}
	if restart && o.restart == nil {
		v := d.Start
		o.restart = &v
	}
	return o
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
