package cluster

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/kv"
	"meridian/version"
	"meridian/wire"
	"meridian/wire/wiretest"
)

func drawTimestamp(t *rapid.T) clock.Timestamp {
	return clock.Timestamp{Wall: rapid.Int64Min(0).Draw(t, "wall"), Logical: rapid.Uint32().Draw(t, "logical")}
}

func drawEntry(t *rapid.T) *Entry {
	e := &Entry{
		Node: kv.NodeID(rapid.Uint32Min(1).Draw(t, "node")), Store: kv.StoreID(rapid.Uint32().Draw(t, "store")),
		Addr: rapid.String().Draw(t, "addr"), SQLAddr: rapid.String().Draw(t, "sql"), HTTPAddr: rapid.String().Draw(t, "http"),
		Build:     rapid.String().Draw(t, "build"),
		StartedAt: time.Unix(0, rapid.Int64().Draw(t, "started")).UTC(),
		Draining:  rapid.Bool().Draw(t, "draining"), Decommissioning: rapid.Bool().Draw(t, "decommissioning"),
		Versions: version.Said{Binary: version.Binary{Own: version.Version{Major: 1, Minor: rapid.Uint16().Draw(t, "own")}, Oldest: version.Version{Minor: 5}},
			Acting: version.Version{Major: rapid.Uint16().Draw(t, "acting"), Step: 2}},
		Life: rapid.Uint64().Draw(t, "life"), Revision: rapid.Uint64().Draw(t, "revision"),
		Capacity: Capacity{Ranges: 1, Leases: math.MaxUint32, UsedBytes: 3, AvailableBytes: math.MaxUint64, QueriesPerSecond: 0.5},
	}
	for range rapid.IntRange(0, 3).Draw(t, "attributes") {
		e.Attributes = append(e.Attributes, rapid.StringN(1, -1, -1).Draw(t, "attribute"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "tiers") {
		e.Locality = append(e.Locality, Tier{rapid.String().Draw(t, "key"), rapid.String().Draw(t, "value")})
	}
	return e
}

func drawLiveness(t *rapid.T) Liveness {
	return Liveness{
		Node: kv.NodeID(rapid.Uint32Min(1).Draw(t, "node")), Incarnation: rapid.Uint64().Draw(t, "incarnation"),
		Expiration: drawTimestamp(t), Draining: rapid.Bool().Draw(t, "draining"),
		Decommissioning: rapid.Bool().Draw(t, "decommissioning"), Decommissioned: rapid.Bool().Draw(t, "decommissioned"),
	}
}

func TestBytesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		l := drawLiveness(t)
		if got, err := DecodeLiveness(AppendLiveness(nil, &l)); err != nil || got != l {
			t.Fatalf("%v: %+v", err, got)
		}
		p := ping{digest: []known{{node: 3, life: 4, revision: 5, incarnation: 6, expiration: drawTimestamp(t)}}}
		if rapid.Bool().Draw(t, "full") {
			p.entry, p.record = e, &l
		}
		if got, err := wire.Decoded(wire.Append(nil, &p, (*ping).fields), (*ping).fields); err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%v: %+v", err, got)
		}
		a := pong{wall: time.Unix(0, 5).UTC(), entries: []*Entry{e, e}, records: []Liveness{l}}
		if got, err := wire.Decoded(wire.Append(nil, &a, (*pong).fields), (*pong).fields); err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("%v: %+v", err, got)
		}
	})
}

// TestMessages: what nodes say of themselves and of each other is as package wire wants it; entries and records keep what a later version says.
func TestMessages(t *testing.T) {
	entry := func(e *Entry) {
		e.Node = max(e.Node, 1)
		e.StartedAt = time.Unix(0, int64(e.Life>>1)).UTC()
	}
	live := func(l *Liveness) { l.Node = max(l.Node, 1) }
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("cluster.Entry", wiretest.Keeps, (*Entry).fields, entry),
		wiretest.Declared("cluster.Tier", wiretest.Refuses, (*Tier).fields, nil),
		wiretest.Declared("cluster.Capacity", wiretest.Keeps, (*Capacity).fields, nil),
		wiretest.Declared("cluster.Liveness", wiretest.Keeps, (*Liveness).fields, live),
		wiretest.Declared("cluster.Ceiling", wiretest.Skips, (*storedCeiling).fields, func(c *storedCeiling) { c.Allow, c.Assume = c.Allow&math.MaxInt64, c.Assume&math.MaxInt64 }),
		wiretest.Declared("cluster.Known", wiretest.Skips, (*known).fields, nil),
		wiretest.Declared("cluster.Ping", wiretest.Skips, (*ping).fields, func(p *ping) {
			if p.entry != nil {
				entry(p.entry)
			}
			if p.record != nil {
				live(p.record)
			}
		}),
		wiretest.Declared("cluster.Pong", wiretest.Skips, (*pong).fields, func(p *pong) {
			p.wall = time.Unix(0, 5).UTC()
			for i := range p.entries {
				if p.entries[i] == nil {
					p.entries[i] = &Entry{}
				}
				entry(p.entries[i])
			}
			for i := range p.records {
				live(&p.records[i])
			}
		}),
	})
}

func FuzzDecode(f *testing.F) {
	e := &Entry{Node: 1, Addr: "a:1", Locality: Locality{{"region", "r"}}}
	l := Liveness{Node: 2, Incarnation: 3}
	f.Add(AppendLiveness(nil, &l))
	f.Add(wire.Append(nil, &ping{entry: e, record: &l, digest: []known{{node: 1}}}, (*ping).fields))
	f.Add(wire.Append(nil, &pong{entries: []*Entry{e}, records: []Liveness{l}}, (*pong).fields))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := DecodeLiveness(b); err == nil {
			if again, err := DecodeLiveness(AppendLiveness(nil, &l)); err != nil || again != l {
				t.Fatal(err, again)
			}
		}
		if p, err := wire.Decoded(b, (*ping).fields); err == nil {
			if again, err := wire.Decoded(wire.Append(nil, &p, (*ping).fields), (*ping).fields); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatal(err, again)
			}
		}
		if p, err := wire.Decoded(b, (*pong).fields); err == nil {
			if again, err := wire.Decoded(wire.Append(nil, &p, (*pong).fields), (*pong).fields); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatal(err, again)
			}
		}
	})
}

func TestLocality(t *testing.T) {
	a, err := ParseLocality("region=us, zone=a")
	if err != nil || a.Region() != "us" || a.Zone() != "a" || a.String() != "region=us,zone=a" {
		t.Fatal(a, err)
	}
	for _, bad := range []string{"region", "=x", "region=", "region=a,region=b", "region=a,,zone=b"} {
		if _, err := ParseLocality(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, c := range []struct {
		other string
		want  float64
	}{{"region=us,zone=a", 0}, {"region=us,zone=b", 0.5}, {"region=eu,zone=a", 1}, {"region=us", 0.5}, {"", 1}} {
		o, _ := ParseLocality(c.other)
		if got := a.Diversity(o); got != c.want || o.Diversity(a) != c.want {
			t.Errorf("%s: %v, want %v", c.other, got, c.want)
		}
	}
}
