package server

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"meridian/keys"
	"meridian/placement"
	"meridian/setting"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
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
		n.zones.leases.Store(leases)
		mu.Lock()
		defer mu.Unlock()
		for _, err := range n.settings.Set(leases.Settings()) {
			n.host.Log.Warn("a cluster setting is not followed; the default holds", "error", err)
		}
	})
}

// Settings are the cluster settings as this node follows them.
func (n *Node) Settings() *setting.Values { return n.settings }

// zones are the configurations of ranges, by the catalogue, the cluster settings and the node's options.
type zones struct {
	n *Node
	// leases is set once the node has the catalogue.
	leases atomic.Pointer[lease.Manager]

	mu sync.Mutex
	// spans are those of a catalogue's generation and of the settings that cluster was made from.
	catalogue uint64
	cluster   placement.Zone
	spans     []region.Span
	// generation counts the times that spans changed.
	generation uint64
}

// whole is the configuration of the cluster.
func (z *zones) whole() placement.Zone {
	zone, s := placement.DefaultZone(), z.n.settings
	if z.n.o.RangeMaxBytes > 0 {
		zone.RangeMaxBytes = z.n.o.RangeMaxBytes
	}
	zone.GCTTL = time.Duration(s.Int(setting.GCTTL)) * time.Second
	zone.NumVoters = int(s.Int(setting.Voters))
	zone.NumReplicas = zone.NumVoters + int(s.Int(setting.NonVoters))
	return zone
}

// current are the spans of the newest catalogue that the node knows.
func (z *zones) current() ([]region.Span, uint64) {
	var s *lease.Snapshot
	if l := z.leases.Load(); l != nil {
		s = l.Snapshot()
	}
	cluster := z.whole()
	z.mu.Lock()
	defer z.mu.Unlock()
	if s == nil {
		return []region.Span{{Start: keys.Min, Zone: cluster}}, 0
	}
	if z.spans == nil || z.catalogue != s.Generation() || !reflect.DeepEqual(z.cluster, cluster) {
		z.catalogue, z.cluster = s.Generation(), cluster
		if spans := region.Spans(s, cluster); !reflect.DeepEqual(spans, z.spans) {
			z.spans = spans
			z.generation++
		}
	}
	return z.spans, z.generation
}

// Zone implements rangeserver.ZoneSource.
func (z *zones) Zone(k keys.Key) (placement.Zone, keys.Span) {
	spans, _ := z.current()
	return region.Find(spans, k)
}

// Generation implements rangeserver.ZoneSource.
func (z *zones) Generation() uint64 {
	_, g := z.current()
	return g
}
