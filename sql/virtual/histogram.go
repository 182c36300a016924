package virtual

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"meridian/encoding"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/types"
)

// Histograms as pg_stats shows them. anyarray is text[] here.

// commonValues are the most frequent values of a column; nil: there are none.
func commonValues(h *catalog.Histogram, t *types.T) any {
	if h == nil || len(h.Common) == 0 {
		return nil
	}
	out := make([]string, len(h.Common))
	for i := range h.Common {
		out[i] = histogramValue(h.Common[i].Value, t)
	}
	return textArray(out, types.ArrayOf(types.Text))
}

// commonShares are their shares of all rows.
func commonShares(h *catalog.Histogram) any {
	if h == nil || len(h.Common) == 0 {
		return nil
	}
	a := &types.Array{Elem: types.Float4}
	for i := range h.Common {
		a.Elems = append(a.Elems, types.NewFloat(float64(h.Common[i].PerMillion)/1e6))
	}
	return types.NewArray(a)
}

// histogramBounds divide the other values into parts of equal size.
func histogramBounds(h *catalog.Histogram, t *types.T) any {
	if h == nil || len(h.Bounds) == 0 || bytes.Equal(h.Bounds[0], h.Bounds[len(h.Bounds)-1]) { // PostgreSQL makes none of one value
		return nil
	}
	out := make([]string, len(h.Bounds))
	for i, b := range h.Bounds {
		out[i] = histogramValue(b, t)
	}
	return textArray(out, types.ArrayOf(types.Text))
}

// histogramValue is the text of a value of a histogram. Of a text that was cut, it is the beginning.
func histogramValue(key []byte, t *types.T) string {
	if len(key) == catalog.HistogramValueBytes {
		if v, err := encoding.CutString(key); err == nil && t.Phys() == types.PhysString {
			for len(v) > 0 && !utf8.ValidString(v) {
				v = v[:len(v)-1]
			}
			return v
		}
	}
	d, _, err := rowcode.DecodeKeyDatum(slices.Clone(key), t, encoding.Ascending)
	if err != nil {
		return "..." // a long value that is not a text
	}
	return strings.Clone(string(types.AppendText(nil, d, t, nil)))
}
