package schemachange

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/types"
	"meridian/version"
)

// keepsClasses forgets the operator classes of a new index's columns until all nodes can read a descriptor that has them. They only show: the index has the same order without them.
func (c *change) keepsClasses(x *catalog.Index) {
	if c.o.Leases.Active(version.OperatorClasses) {
		return
	}
	for i := range x.Columns {
		x.Columns[i].Class = ""
	}
}

// shortens reports whether a new table is to store its values of char(n) without their trailing blanks: pgbench's accounts, with 84 blanks each, take a third of the space and of the
// log. A binary without that would read them without the blanks; so it does not read the table's descriptor.
func (c *change) shortens(t *catalog.Table) bool {
	return t.Kind == catalog.KindTable && c.o.Leases.Active(version.ShortChars) && slices.ContainsFunc(t.Columns, func(x catalog.Column) bool {
		return x.Type.Kind == types.KindBPChar && x.Type.Width > 0
	})
}
