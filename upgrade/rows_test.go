package upgrade

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the rows of the cluster's version are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("upgrade.Cluster", wiretest.Keeps, appendCluster, readClusterRow, nil),
		wiretest.Of("upgrade.Member", wiretest.Skips, appendMember, readMember, func(m *Member) { m.Node = 0 }),
		wiretest.Of("upgrade.Migration", wiretest.Refuses, appendDone, readDone, nil),
	})
}
