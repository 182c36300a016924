package lease

import (
	"testing"

	"meridian/kv"
	"meridian/wire/wiretest"
)

// TestMessages: the messages between nodes about the catalogue, and the rows besides descriptors, keep the rules of package wire.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("lease.Message", wiretest.Skips, appendMessage, readMessage, nil),
		wiretest.Of("lease.Change", wiretest.Skips, appendChange, readChange, nil),
		wiretest.Of("lease.Dependency", wiretest.Skips, appendDependency, readDependency, nil),
		wiretest.Of("lease.Users", wiretest.Skips, appendUsers, readUsers, func(u *users) {
			for i := range u.Txns {
				u.Txns[i].Isolation = kv.Serializable
			}
		}),
		wiretest.Of("lease.Tenure", wiretest.Skips, appendTenure, readTenure, nil),
		wiretest.Of("lease.Frozen", wiretest.Skips, appendFrozen, readFrozen, nil),
		wiretest.Of("lease.Pending", wiretest.Skips, appendPending, readPendingRow, nil),
		wiretest.Of("lease.Statistics", wiretest.Skips, appendStatistics, readStatistics, nil),
		wiretest.Of("lease.Column", wiretest.Skips, appendColumn, readColumn, nil),
		wiretest.Of("lease.Histogram", wiretest.Skips, appendHistogram, readHistogram, nil),
		wiretest.Of("lease.ChangedRows", wiretest.Skips, appendChanges, readChanges, nil),
		wiretest.Of("lease.Collector", wiretest.Skips, appendCollector, readCollector, nil),
		wiretest.Of("lease.CommonValue", wiretest.Skips, appendCommon, readCommon, nil),
	})
}
