package server

import (
	"context"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/placement"
	"meridian/rangeserver"
	"meridian/setting"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
)

// newSettings are the cluster settings before the catalogue was read; the node's options are defaults of its own.
func newSettings(o *Options) *setting.Values {
	own := map[setting.ID]int64{}
	if o.GCTTL > 0 {
		own[setting.GCTTL] = int64(o.GCTTL / time.Second)
	}
	if o.TimeUntilStoreDead > 0 {
		own[setting.TimeUntilStoreDead] = int64(o.TimeUntilStoreDead)
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

// of are the spans of a catalogue; nil: it is not known yet.
func (z *zones) of(s *lease.Snapshot) ([]region.Span, uint64) {
	cluster := z.whole()
	if s == nil {
		return []region.Span{{Start: keys.Min, Zone: cluster}}, 0
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.spans == nil || z.catalogue < s.Generation() || z.catalogue == s.Generation() && !reflect.DeepEqual(z.cluster, cluster) {
		z.catalogue, z.cluster = s.Generation(), cluster
		if spans := region.Spans(s, cluster); !reflect.DeepEqual(spans, z.spans) {
			z.spans = spans
			z.generation++
		}
	}
	if z.catalogue > s.Generation() { // another goroutine was faster
		return region.Spans(s, cluster), z.generation
	}
	return z.spans, z.generation
}

// current are the spans of the newest catalogue that the node knows.
func (z *zones) current() ([]region.Span, uint64) {
	if l := z.leases.Load(); l != nil {
		return z.of(l.Snapshot())
	}
	return z.of(nil)
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

// Use implements rangeserver.ZoneSource. The descriptors that it uses are those of the span's tables and of their databases, and the cluster settings. Ranges
// without users' rows have the catalogue itself: they do not wait for it, and nothing forbids regions to them.
func (z *zones) Use(span keys.Span) (rangeserver.ZoneUse, error) {
	first, last := tablesIn(span)
	if last < catalog.FirstUserID {
		spans, _ := z.current()
		return zoneUse{spans, nil}, nil
	}
	l := z.leases.Load()
	if l == nil {
		return nil, lease.ErrNoTenure
	}
	h, err := l.Hold(func(s *lease.Snapshot) []catalog.ID {
		ids := []catalog.ID{catalog.SettingsTableID}
		databases := map[catalog.ID]bool{}
		for t := range s.StoredTables() {
			if t.ID < first || t.ID > last {
				continue
			}
			if ids = append(ids, t.ID); !databases[t.Database] {
				databases[t.Database] = true
				ids = append(ids, t.Database)
			}
		}
		return ids
	})
	if err != nil {
		return nil, err
	}
	spans, _ := z.of(h.Snapshot())
	return zoneUse{spans, h}, nil
}

// tablesIn are the first and the last identity that a table with rows in a span may have.
func tablesIn(span keys.Span) (first, last catalog.ID) {
	if id, _, err := keys.DecodeTableKey(span.Start); err == nil {
		first = catalog.ID(id)
	}
	last = math.MaxUint32
	if id, rest, err := keys.DecodeTableKey(span.Stop()); err == nil {
		if last = catalog.ID(id); len(rest) == 0 && last > 0 {
			last--
		}
	} else if !keys.TablePrefix.Less(span.Stop()) {
		last = 0
	}
	return first, last
}

// zoneUse implements rangeserver.ZoneUse; without a hold, for system ranges.
type zoneUse struct {
	spans []region.Span
	hold  *lease.Hold
}

func (u zoneUse) Zone(k keys.Key) (placement.Zone, keys.Span) { return region.Find(u.spans, k) }

func (u zoneUse) Deadline() (t clock.Timestamp) {
	if u.hold != nil {
		t = u.hold.Deadline()
	}
	return t
}

func (u zoneUse) AwaitDeadline(ctx context.Context, at clock.Timestamp) {
	if u.hold != nil {
		u.hold.AwaitDeadline(ctx, at)
	}
}

func (u zoneUse) Release() {
	if u.hold != nil {
		u.hold.Release()
	}
}

// ZoneOf is the configuration of the keys around a key, as this node knows it, and their span.
func (n *Node) ZoneOf(k keys.Key) (placement.Zone, keys.Span) { return n.zones.Zone(k) }
