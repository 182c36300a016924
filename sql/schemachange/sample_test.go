package schemachange

import (
	"math"
	"testing"

	"meridian/encoding"
	"meridian/sim"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// TestSample: every row has the same chance to be in the sample, which is bounded in rows, and in bytes if there are many columns.
func TestSample(t *testing.T) {
	dice := sim.NewDice(1, "sample")
	table := &catalog.Table{Columns: []catalog.Column{{ID: 1, Type: types.Int8}}}
	s := newSample(1, dice)
	s.rows = 1000
	const rows = 50_000
	for i := range rows {
		if at, ok := s.place(); ok {
			s.put(at, types.Row{types.NewInt(int64(i))}, table, []int{0}, true)
		}
	}
	if len(s.values) != 1000 {
		t.Fatalf("%d rows", len(s.values))
	}
	c := s.column(0, rows, 10)
	if c.Distinct < rows*9/10 || c.NullCount != 0 || len(c.Histogram.Bounds) != 11 {
		t.Errorf("%+v", c)
	}
	for i, b := range c.Histogram.Bounds {
		d, _, err := encoding.DecodeInt(b, encoding.Ascending)
		if want := float64(i) * rows / 10; err != nil || math.Abs(float64(d)-want) > rows/20 {
			t.Errorf("bound %d is %d, %v", i, d, err)
		}
	}
	if most := newSample(1600, dice).rows; most*1600*catalog.HistogramValueBytes > 64<<20 || most < leastSample {
		t.Errorf("a sample of 1600 columns has %d rows", most)
	}
}

// TestCountsOnly: statistics of rows that may not leave their region have no values.
func TestCountsOnly(t *testing.T) {
	table := &catalog.Table{Columns: []catalog.Column{{ID: 1, Type: types.Text}}}
	s := newSample(1, sim.NewDice(1, "sample"))
	for range 100 {
		at, _ := s.place()
		s.put(at, types.Row{types.NewString("secret")}, table, []int{0}, false)
	}
	for i := range s.values {
		if len(s.values[i].key) > 0 {
			t.Fatal("the sample has a value")
		}
	}
	if c := s.column(0, 100, 0); c.Histogram != nil || c.Distinct != 1 || c.AvgWidth != 6 {
		t.Errorf("%+v", c)
	}
}
