package main

import (
	"bytes"
	"fmt"
	"math"
)

// The paper's figures (CRDB'20 §3.1).
const (
	paperCut  = 0.47
	paperGain = 0.72
)

// plot draws two panels, throughput and median latency over the number of indexes, as SVG.
func (r *result) plot() []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 380" font-family="sans-serif" font-size="12">
<rect width="860" height="380" fill="white"/>
`)
	text(&b, 430, 22, "middle", 15, "#000", "Single-row writes, three regions: parallel commits and two phases (CRDB'20, figure 2)")
	cut, gain := r.best()
	throughput := func(p point) float64 { return p.PerSec }
	latency := func(p point) float64 { return milliseconds(p.Median) }
	r.panel(&b, 60, "writes per second", throughput, fmt.Sprintf("gain up to %.0f %% (the paper: %.0f %%)", 100*gain, 100*paperGain))
	r.panel(&b, 490, "median latency, ms", latency, fmt.Sprintf("cut up to %.0f %% (the paper: %.0f %%)", 100*cut, 100*paperCut))
	fmt.Fprint(&b, "</svg>\n")
	return b.Bytes()
}

const (
	panelTop, panelBottom, panelWidth = 60.0, 310.0, 330.0
	colorParallel, colorTwo           = "#1f6f4a", "#b3472a"
)

func text(b *bytes.Buffer, x, y float64, anchor string, size int, color, s string) {
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="%s" font-size="%d" fill="%s">%s</text>`+"\n", x, y, anchor, size, color, s)
}

// panel draws one of them, from x to the right.
func (r *result) panel(b *bytes.Buffer, x float64, title string, value func(point) float64, note string) {
	top := 0.0
	for _, p := range append(r.Parallel[:len(r.Parallel):len(r.Parallel)], r.TwoPhases...) {
		top = max(top, value(p))
	}
	step := niceStep(top / 5)
	top = math.Ceil(top*1.05/step) * step
	last := float64(r.Parallel[len(r.Parallel)-1].Indexes)
	px := func(n int) float64 { return x + float64(n)/max(last, 1)*panelWidth }
	py := func(v float64) float64 { return panelBottom - v/top*(panelBottom-panelTop) }
	for v := 0.0; v <= top+step/2; v += step {
		fmt.Fprintf(b, `<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" stroke="#ddd"/>`+"\n", x, py(v), x+panelWidth, py(v))
		text(b, x-6, py(v)+4, "end", 11, "#444", fmt.Sprintf("%g", v))
	}
	for _, p := range r.Parallel {
		text(b, px(p.Indexes), panelBottom+16, "middle", 11, "#444", fmt.Sprint(p.Indexes))
	}
	text(b, x+panelWidth/2, panelBottom+34, "middle", 12, "#000", "secondary indexes")
	text(b, x+panelWidth/2, panelTop-14, "middle", 13, "#000", title)
	text(b, x+panelWidth/2, panelBottom+54, "middle", 12, "#000", note)
	for i, l := range []struct {
		points      []point
		color, name string
	}{{r.Parallel, colorParallel, "parallel commits"}, {r.TwoPhases, colorTwo, "two phases"}} {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, l.color)
		for _, p := range l.points {
			fmt.Fprintf(b, "%.1f,%.1f ", px(p.Indexes), py(value(p)))
		}
		fmt.Fprint(b, `"/>`+"\n")
		for _, p := range l.points {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", px(p.Indexes), py(value(p)), l.color)
		}
		text(b, x+8, panelBottom-8-16*float64(1-i), "start", 12, l.color, l.name)
	}
}

// niceStep is the next 1, 2 or 5 times a power of ten.
func niceStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*p {
			return m * p
		}
	}
	return 10 * p
}
