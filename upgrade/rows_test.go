package upgrade

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the rows of the cluster's version are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("upgrade.Cluster", wiretest.Keeps, (*Cluster).fields, nil),
		wiretest.Declared("upgrade.Member", wiretest.Skips, (*Member).fields, func(m *Member) { m.Node = 0 }),
		wiretest.Declared("upgrade.Migration", wiretest.Refuses, (*done).fields, nil),
	})
}
