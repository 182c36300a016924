package server

import (
	"sync"
	"time"

	"meridian/keys"
	"meridian/placement"
	"meridian/setting"
	"meridian/sql/catalog/lease"
)

// newSettings are the cluster settings before the catalogue was read; the node's options are defaults of its own.
func newSettings(o *Options) *setting.Values {
	own := map[setting.ID]int64{}
	if o.GCTTL > 0 {
		own[setting.GCTTL] = int64(o.GCTTL / time.Second)
	}
	if o.NonVoters > 0 {
		own[setting.NonVoters] = int64(o.NonVoters)
	}
	return setting.New(own)
}

// followSettings keeps the node's cluster settings at the catalogue's values.
func (n *Node) followSettings(leases *lease.Manager) {
	var mu sync.Mutex // it keeps the order of reading and setting; Values.Set takes its own mutex after it
	leases.OnChange(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, err := range n.settings.Set(leases.Settings()) {
			n.host.Log.Warn("a cluster setting is not followed; the default holds", "error", err)
		}
	})
}

// Settings are the cluster settings as this node follows them.
func (n *Node) Settings() *setting.Values { return n.settings }

// zones gives every range the same configuration: the node's options and the cluster settings.
type zones struct{ n *Node }

// Zone implements rangeserver.ZoneSource.
func (z zones) Zone(keys.Key) placement.Zone {
	zone, s := placement.DefaultZone(), z.n.settings
	if z.n.o.RangeMaxBytes > 0 {
		zone.RangeMaxBytes = z.n.o.RangeMaxBytes
	}
	zone.GCTTL = time.Duration(s.Int(setting.GCTTL)) * time.Second
	zone.NumVoters = int(s.Int(setting.Voters))
	zone.NumReplicas = zone.NumVoters + int(s.Int(setting.NonVoters))
	return zone
}
