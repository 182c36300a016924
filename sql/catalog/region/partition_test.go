package region_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"meridian/encoding"
	"meridian/keys"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
)

// one is a catalogue of one database with one table.
type one struct {
	db *catalog.Database
	t  *catalog.Table
}

func (c one) DatabaseByID(catalog.ID) *catalog.Database { return c.db }
func (c one) Databases() iter.Seq[*catalog.Database]    { return slices.Values([]*catalog.Database{c.db}) }
func (c one) Zones() catalog.NamedZones                 { return catalog.NamedZones{} }
func (c one) StoredTables() iter.Seq[*catalog.Table] {
	return func(yield func(*catalog.Table) bool) { yield(c.t) }
}

func key(vs ...int64) (b []byte) {
	for _, v := range vs {
		b = encoding.AppendInt(b, v, encoding.Ascending)
	}
	return b
}

// domain is the number of values of each column in TestPartitions.
const domain = 4

// partitioning makes a random one over columns from first on, of three, with names that say where they come from.
func partitioning(dice *rand.Rand, first int, name string) *catalog.Partitioning {
	p := &catalog.Partitioning{Columns: 1 + dice.IntN(3-first), Range: dice.IntN(3) == 0}
	if p.Range {
		from := int64(0)
		for i := 0; from < domain && i < 3; i++ {
			from += int64(dice.IntN(2))
			to := from + 1 + int64(dice.IntN(2))
			low, high := catalog.Bound{Key: key(from), Values: 1}, catalog.Bound{Key: key(to), Values: 1}
			if i == 0 && dice.IntN(2) == 0 {
				low = catalog.Bound{}
			}
			if to >= domain && dice.IntN(2) == 0 {
				high = catalog.Bound{End: true}
			}
			p.Columns = 1
			p.Partitions = append(p.Partitions, catalog.Partition{Name: fmt.Sprint(name, "r", i), From: &low, To: &high})
			from = to
		}
		return p
	}
	seen := map[string]bool{}
	for i := range 1 + dice.IntN(4) {
		q := catalog.Partition{Name: fmt.Sprint(name, "l", i)}
		full := true
		for range 1 + dice.IntN(2) {
			n := dice.IntN(p.Columns + 1)
			var vs []int64
			for range n {
				vs = append(vs, int64(dice.IntN(domain)))
			}
			if b := (catalog.Bound{Key: key(vs...), Values: n}); !seen[string(b.Key)] {
				seen[string(b.Key)] = true
				full = full && n == p.Columns
				q.Values = append(q.Values, b)
			}
		}
		if len(q.Values) == 0 {
			continue
		}
		if full && first+p.Columns < 3 && dice.IntN(2) == 0 {
			q.Sub = partitioning(dice, first+p.Columns, q.Name)
		}
		p.Partitions = append(p.Partitions, q)
	}
	return p
}

// within lists the partitions that a row is in, the outermost first.
func within(p *catalog.Partitioning, row []int64) []string {
	if p == nil {
		return nil
	}
	longest, in := -1, (*catalog.Partition)(nil)
	for i := range p.Partitions {
		q := &p.Partitions[i]
		if p.Range {
			k := string(key(row[0]))
			if string(q.From.Key) <= k && (q.To.End || k < string(q.To.Key)) {
				in = q
			}
			continue
		}
		for _, v := range q.Values {
			if string(v.Key) == string(key(row[:v.Values]...)) && v.Values > longest {
				longest, in = v.Values, q
			}
		}
	}
	if in == nil {
		return nil
	}
	return append([]string{in.Name}, within(in.Sub, row[p.Columns:])...)
}

// TestPartitions compares the spans of random partitionings with a model that looks for the partitions of each row by its values.
func TestPartitions(t *testing.T) {
	for seed := range uint64(3000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		table := &catalog.Table{ID: 20000, Database: 1, Indexes: []catalog.Index{{ID: 1, Primary: true, PartitionZones: map[string]*catalog.ZoneConfig{}}, {ID: 2}}}
		x := &table.Indexes[0]
		x.Partitioning = partitioning(dice, 0, "")
		number := int32(100)
		x.Partitioning.Each(func(q, _ *catalog.Partition, _ int) {
			if number++; dice.IntN(3) > 0 {
				seconds := number
				x.PartitionZones[q.Name] = &catalog.ZoneConfig{GCSeconds: &seconds}
			}
		})
		spans := region.Spans(one{&catalog.Database{ID: 1}, table}, placement.DefaultZone())
		if !slices.IsSortedFunc(spans, func(a, b region.Span) int { return a.Start.Compare(b.Start) }) {
			t.Fatalf("seed %d: the spans are not in order", seed)
		}
		row := make([]int64, 3)
		for n := range domain * domain * domain {
			row[0], row[1], row[2] = int64(n/domain/domain), int64(n/domain%domain), int64(n%domain)
			want := placement.DefaultZone().GCTTL
			for _, p := range within(x.Partitioning, row) {
				if z := x.PartitionZones[p]; z != nil {
					want = region.Zone(z, placement.DefaultZone()).GCTTL
				}
			}
			k := append(keys.IndexPrefix(table.ID, x.ID), key(row...)...)
			got, span := region.Find(spans, k)
			if got.GCTTL != want || !span.Contains(k) {
				t.Fatalf("seed %d: row %v is in %v and gets %s, want %s", seed, row, within(x.Partitioning, row), got.GCTTL, want)
			}
		}
		for _, k := range []keys.Key{keys.IndexPrefix(table.ID, catalog.IndexID(2)), keys.TableSpan(table.ID).End, keys.TableKey(table.ID)} {
			if z, _ := region.Find(spans, k); z.GCTTL != placement.DefaultZone().GCTTL && !k.Equal(keys.TableKey(table.ID)) {
				t.Fatalf("seed %d: a partition reaches beyond its index", seed)
			}
		}
	}
}
