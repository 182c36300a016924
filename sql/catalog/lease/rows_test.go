package lease

import (
	"testing"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/wire"
	"meridian/wire/wiretest"
)

// TestMessages: the messages between nodes about the catalogue, and the rows besides descriptors, keep the rules of package wire.
func TestMessages(t *testing.T) {
	type columnStatistics struct {
		id catalog.ColumnID
		catalog.ColumnStatistics
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("lease.Message", wiretest.Skips, (*message).fields, nil),
		wiretest.Declared("lease.Change", wiretest.Skips, (*messageChange).fields, nil),
		wiretest.Declared("lease.Dependency", wiretest.Skips, dependency, nil),
		wiretest.Declared("lease.Users", wiretest.Skips, (*users).fields, func(u *users) {
			for i := range u.Txns {
				u.Txns[i].Isolation = kv.Serializable
			}
		}),
		wiretest.Declared("lease.Tenure", wiretest.Skips, (*tenureRow).fields, nil),
		wiretest.Declared("lease.Frozen", wiretest.Skips, (*frozenRow).fields, nil),
		wiretest.Declared("lease.Pending", wiretest.Skips, (*pendingRow).fields, nil),
		wiretest.Declared("lease.Statistics", wiretest.Skips, statistics, nil),
		wiretest.Declared("lease.Column", wiretest.Skips, func(s *columnStatistics, c *wire.Coder) { column(&s.id, &s.ColumnStatistics, c) }, nil),
		wiretest.Declared("lease.Histogram", wiretest.Skips, histogram, nil),
		wiretest.Declared("lease.ChangedRows", wiretest.Skips, (*changedRows).fields, nil),
		wiretest.Declared("lease.Collector", wiretest.Skips, (*collector).fields, nil),
		wiretest.Declared("lease.CommonValue", wiretest.Skips, common, nil),
	})
}
