package schemachange

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/types"
	"meridian/version"
)

// shortens reports whether a new table is to store its values of char(n) without their trailing blanks: pgbench's accounts, with 84 blanks each, take a third of the space and of the
// log. A binary without that would read them without the blanks; so it does not read the table's descriptor.
func (c *change) shortens(t *catalog.Table) bool {
	return t.Kind == catalog.KindTable && c.o.Leases.Active(version.ShortChars) && slices.ContainsFunc(t.Columns, func(x catalog.Column) bool {
		return x.Type.Kind == types.KindBPChar && x.Type.Width > 0
	})
}
