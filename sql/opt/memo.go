package opt

import (
	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// group is a set of logically equal expressions: they yield the same rows, in any order. Expressions are the operators
// of logical.go with groups for inputs; the first is the normal form, from which the group's properties are derived,
// the others were found by exploration.
type group struct {
	id    int32
	exprs []Rel
	first [1]Rel // memory of exprs while there is one

	// cols are the columns of its rows, outer those of enclosing queries that it reads, notNull those of cols that
	// can't be NULL.
	cols, outer, notNull colSet
	// needed are the columns that anything above reads; set by prune.
	needed colSet
	rows   float64
	// volatile: evaluating it more or less often, or in another place, can be noticed.
	volatile bool
	// endless: the rows are of a recursive query, and perhaps have no end.
	endless bool

	deps             *dependencies // nil: not derived yet
	pruned, explored bool
	winners          []winner
}

func (*group) rel() {}

func (g *group) expr() Rel { return g.exprs[0] }

// winner is the cheapest way to have a group's rows with required properties.
type winner struct {
	req required
	phys
}

// required are the physical properties that a consumer asks of a group.
type required struct {
	order []OrderColumn
	// limit is how many rows the consumer is expected to take; zero: all.
	limit float64
}

// optimizer is the state of one call of Optimize.
type optimizer struct {
	meta *Metadata
	env  *Env
	// failed is the first error of a constant part of the statement.
	failed error

	slab   []group
	count  int32
	tables []*tableInfo
	ctes   map[int]*cte
	// plans are those of queries in scalars, and planned the scalars that have them.
	plans   map[*subquery]Node
	planned map[*subquery][]*scalar.Subquery
	writes  bool
	// reads are the common table expressions that were read, in the order of building.
	reads []int
	// nullableLocks says that there are locked scans below an outer join, and lockedNullable are their columns.
	nullableLocks  bool
	lockedNullable colSet

	// owed is memory that was not requested from Room yet, and steps counts the steps since the last request.
	owed, steps int64
}

// groupBytes is the memory of a group with its plan, without its large column sets: an estimate of ours.
const groupBytes = 1 << 10

// cte describes a common table expression in scope.
type cte struct {
	rows float64
	cols []ColumnID
	// recursive: it is read outside of its recursive term.
	recursive bool
}

// newGroup makes a group with its first expression; the caller has set the logical properties of p.
func (o *optimizer) newGroup(r Rel) *group {
	if len(o.slab) == 0 {
		o.slab = make([]group, 8)
	}
	g := &o.slab[0]
	o.slab = o.slab[1:]
	o.count++
	g.id = o.count
	g.first[0] = r
	g.exprs = g.first[:]
	o.derive(g)
	o.charge(groupBytes + 8*(len(g.cols.big)+len(g.outer.big)+len(g.notNull.big)))
	return g
}

// add puts another expression into a group.
func (g *group) add(r Rel) { g.exprs = append(g.exprs, r) }

func child(r Rel) *group { return r.(*group) }

// tableInfo describes a table to the optimizer.
type tableInfo struct {
	table *catalog.Table
	stats *catalog.Statistics
	rows  float64
	width float64
}

func (o *optimizer) info(t *catalog.Table) *tableInfo {
	for _, i := range o.tables {
		if i.table == t {
			return i
		}
	}
	i := &tableInfo{table: t, rows: defaultRows}
	if t.Kind == catalog.KindVirtual {
		i.rows = virtualRows(t)
	}
	if o.env.Statistics != nil && t.Kind == catalog.KindTable {
		i.stats = o.env.Statistics(t.ID)
	}
	if i.stats != nil {
		i.rows = max(float64(i.stats.Rows), 1)
	}
	for j := range t.Columns {
		i.width += columnWidth(t.Columns[j].Type)
	}
	if i.stats != nil && i.stats.Rows > 0 && i.stats.Bytes > 0 {
		i.width = float64(i.stats.Bytes) / float64(i.stats.Rows)
	}
	o.tables = append(o.tables, i)
	return i
}
