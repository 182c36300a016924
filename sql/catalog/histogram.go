package catalog

import (
	"bytes"
	"math"
	"slices"

	"meridian/encoding"
)

// Histogram describes how the values of a column are distributed. Values are in key encoding, ascending (rowcode.AppendKeyDatum), so one
// comparison of bytes orders values of every type that an index can have. Texts and other long values are cut to HistogramValueBytes.
//
// The rows with NULL, those with a value of Common, and the others add up to all rows. The others are described by Bounds, which divide
// them into parts of equal size: an equi-depth histogram, as PostgreSQL's.
type Histogram struct {
	// Common are the most frequent values, by falling frequency. None of them was cut.
	Common []CommonValue
	// Bounds are the least value of the others, the ends of the parts but the last, and the greatest value; nil: there are no others.
	Bounds [][]byte
}

// CommonValue is a frequent value.
type CommonValue struct {
	Value []byte
	// PerMillion is its share of all rows of the table, those with NULL included.
	PerMillion uint32
}

// HistogramValueBytes bounds the values of a histogram: enough to tell URLs of one site apart.
const HistogramValueBytes = 64

const million = 1_000_000

// NewHistogram describes a sample of a column: values has those that are not NULL, in key encoding, and is sorted by it; nulls is how many
// others the sample has. complete says that the sample is all rows. parts bounds both the common values and the parts
// of the others. The result shares memory with values.
func NewHistogram(values [][]byte, nulls int, complete bool, parts int) *Histogram {
	if len(values) == 0 {
		return nil
	}
	slices.SortFunc(values, bytes.Compare)
	type run struct{ at, n int }
	var runs []run
	for i, v := range values {
		if i > 0 && bytes.Equal(v, values[i-1]) {
			runs[len(runs)-1].n++
			continue
		}
		runs = append(runs, run{i, 1})
	}
	// A value is common if it fills a good part of one part of the histogram, or is clearly more frequent than the average of the values.
	// If there is place for all values of a sample that has each of them more than once, or is complete, then all are; unless no value is
	// repeated, as in a unique column.
	all := len(runs) <= parts && len(runs) < len(values)
	average := float64(len(values)) / float64(len(runs))
	threshold := max(2, min(1.25*average, float64(len(values))/float64(parts)))
	if all {
		for _, r := range runs {
			all = all && (r.n > 1 || complete) && len(values[r.at]) < HistogramValueBytes
		}
	}
	var common []run
	for _, r := range runs {
		if len(values[r.at]) < HistogramValueBytes && (all || float64(r.n) >= threshold) {
			common = append(common, r)
		}
	}
	slices.SortStableFunc(common, func(a, b run) int { return b.n - a.n })
	common = common[:min(len(common), parts)]
	h := &Histogram{}
	rows := float64(len(values) + nulls)
	taken := map[int]bool{}
	for _, r := range common {
		taken[r.at] = true
		h.Common = append(h.Common, CommonValue{Value: values[r.at], PerMillion: uint32(math.Round(float64(r.n) / rows * million))})
	}
	var rest [][]byte
	for _, r := range runs {
		if !taken[r.at] {
			rest = append(rest, values[r.at:r.at+r.n]...)
		}
	}
	if len(rest) == 0 {
		return h
	}
	n := min(parts, max(len(rest)-1, 1))
	for i := range n + 1 {
		h.Bounds = append(h.Bounds, rest[i*(len(rest)-1)/n])
	}
	return h
}

// Size is the memory of its values, in bytes.
func (h *Histogram) Size() int {
	n := 0
	for _, c := range h.Common {
		n += len(c.Value) + 32
	}
	for _, b := range h.Bounds {
		n += len(b) + 24
	}
	return n
}

// Cut is a value in key encoding as histograms have it.
func (h *Histogram) cut(v []byte) []byte { return v[:min(len(v), HistogramValueBytes)] }

// CommonShare is the share of all rows that have common values.
func (h *Histogram) CommonShare() float64 {
	sum := 0.0
	for _, c := range h.Common {
		sum += float64(c.PerMillion)
	}
	return sum / million
}

// Equal estimates the share of all rows that have a value, which is in key encoding. nulls is the share of rows with NULL, distinct how many
// values the column has, and rows how many rows the table.
func (h *Histogram) Equal(v []byte, nulls, distinct, rows float64) float64 {
	least := 1.0
	for _, c := range h.Common {
		if bytes.Equal(c.Value, v) {
			return float64(c.PerMillion) / million
		}
		least = min(least, float64(c.PerMillion)/million)
	}
	rest := max(1-nulls-h.CommonShare(), 0)
	if h.Bounds == nil {
		// The value did not exist; it may now, and then it is rare.
		return min(0.5/max(rows, 1), least)
	}
	share := rest / max(distinct-float64(len(h.Common)), 1)
	// More frequent, it would be a common value.
	return min(max(share, 0.5/max(rows, 1)), least)
}

// Below estimates the share of all rows whose value is less than v, or, if inclusive, at most v. nulls is the share of rows with NULL, which
// do not count.
func (h *Histogram) Below(v []byte, inclusive bool, nulls float64) float64 {
	v = h.cut(v)
	share := 0.0
	for _, c := range h.Common {
		if d := bytes.Compare(c.Value, v); d < 0 || d == 0 && inclusive {
			share += float64(c.PerMillion) / million
		}
	}
	if h.Bounds == nil {
		return share
	}
	rest := max(1-nulls-h.CommonShare(), 0)
	return share + rest*h.position(v)
}

// position is the share of the rows without common values that are below v. Some may be beyond the bounds: the statistics are not of this
// moment.
func (h *Histogram) position(v []byte) float64 {
	const beyond = 1e-4
	b := h.Bounds
	at, _ := slices.BinarySearchFunc(b, v, bytes.Compare) // the first bound that is not below v
	switch at {
	case 0:
		return beyond
	case len(b):
		return 1 - beyond
	}
	lo, hi := b[at-1], b[at]
	p := (float64(at-1) + within(lo, hi, v)) / float64(len(b)-1)
	return min(max(p, beyond), 1-beyond)
}

// within is where v is between lo and hi, from zero to one: the bytes after those that lo and hi have in common are taken as a number. For
// whole numbers of one length in key encoding this is exact. The digits of a string's number are the characters that it is likely to have,
// as in PostgreSQL: if lo and hi go on with digits, then so do those between them.
func within(lo, hi, v []byte) float64 {
	n := 0
	for n < len(lo) && n < len(hi) && lo[n] == hi[n] {
		n++
	}
	first, last := 0, 255
	if encoding.IsString(lo) {
		first, last = 255, 0
		for _, b := range [2][]byte{lo[n:], hi[n:]} {
			for _, c := range b {
				if c > 1 { // not the end of a string
					first, last = min(first, int(c)), max(last, int(c))
				}
			}
		}
		for _, class := range [3][2]int{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}} {
			if first <= class[1] && last >= class[0] {
				first, last = min(first, class[0]), max(last, class[1])
			}
		}
		first-- // a string that has ended
	}
	base := float64(last - first + 1)
	number := func(b []byte) float64 {
		x, scale := 0.0, 1.0
		for i := n; i < min(n+8, len(b)); i++ {
			scale /= base
			c := int(b[i])
			x += scale * float64(min(max(c, first), last+1)-first)
			if c < first || c > last { // it is below or above all that go on here
				break
			}
		}
		return x
	}
	l, h, x := number(lo), number(hi), number(v)
	if h <= l {
		return 0.5
	}
	return min(max((x-l)/(h-l), 0), 1)
}
