package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

const (
	panelWidth, panelHeight = 330.0, 190.0
	panelLeft, panelTop     = 70.0, 60.0
	panelStepX, panelStepY  = 430.0, 280.0
)

var colors = []string{"#b3472a", "#1f6f4a", "#33608f", "#8a6d1f"}

// plot draws two panels for each script as SVG: throughput, and the 99th percentile of latency, over the number of clients.
// Clients and latencies are on logarithmic scales.
func plot(points []Point) []byte {
	var scripts, targets []string
	for _, p := range points {
		if !slices.Contains(scripts, p.Script) {
			scripts = append(scripts, p.Script)
		}
		if !slices.Contains(targets, p.Target) {
			targets = append(targets, p.Target)
		}
	}
	var b bytes.Buffer
	width, height := 2*panelStepX+20, float64(len(scripts))*panelStepY+50
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">
<rect width="%.0f" height="%.0f" fill="white"/>
`, width, height, width, height)
	text(&b, width/2, 22, "middle", 15, "#000", "More clients than a node can serve: throughput and waiting")
	for i, script := range scripts {
		y := panelTop + float64(i)*panelStepY
		panel(&b, points, targets, script, panelLeft, y, script+": transactions per second", func(p Point) float64 { return p.TPS }, false)
		panel(&b, points, targets, script, panelLeft+panelStepX, y, script+": 99th percentile, ms", func(p Point) float64 { return p.P99MS }, true)
	}
	fmt.Fprint(&b, "</svg>\n")
	return b.Bytes()
}

func text(b *bytes.Buffer, x, y float64, anchor string, size int, color, s string) {
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="%s" font-size="%d" fill="%s">%s</text>`+"\n", x, y, anchor, size, color, s)
}

func panel(b *bytes.Buffer, points []Point, targets []string, script string, x, y float64, title string, value func(Point) float64, logarithmic bool) {
	low, high, first, last := math.Inf(1), 0.0, math.Inf(1), 0.0
	var ticks []int
	for _, p := range points {
		if p.Script != script {
			continue
		}
		low, high = min(low, value(p)), max(high, value(p))
		first, last = min(first, float64(p.Clients)), max(last, float64(p.Clients))
		if !slices.Contains(ticks, p.Clients) {
			ticks = append(ticks, p.Clients)
		}
	}
	if high <= 0 {
		return
	}
	px := func(clients float64) float64 {
		if last <= first {
			return x + panelWidth/2
		}
		return x + math.Log(clients/first)/math.Log(last/first)*panelWidth
	}
	py := func(v float64) float64 { return y + panelHeight - v/(high*1.1)*panelHeight }
	var lines []float64
	if logarithmic {
		bottom, top := math.Floor(math.Log10(max(low, 0.01))), math.Ceil(math.Log10(high))
		if top <= bottom {
			top = bottom + 1
		}
		py = func(v float64) float64 {
			return y + panelHeight - (math.Log10(max(v, 0.01))-bottom)/(top-bottom)*panelHeight
		}
		for e := bottom; e <= top; e++ {
			lines = append(lines, math.Pow(10, e))
		}
	} else {
		for step, v := niceStep(high/4), 0.0; v <= high*1.1; v += step {
			lines = append(lines, v)
		}
	}
	for _, v := range lines {
		fmt.Fprintf(b, `<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" stroke="#ddd"/>`+"\n", x, py(v), x+panelWidth, py(v))
		text(b, x-6, py(v)+4, "end", 11, "#444", fmt.Sprintf("%g", v))
	}
	for _, n := range ticks {
		text(b, px(float64(n)), y+panelHeight+16, "middle", 11, "#444", fmt.Sprint(n))
	}
	text(b, x+panelWidth/2, y+panelHeight+32, "middle", 12, "#000", "clients")
	text(b, x+panelWidth/2, y-10, "middle", 13, "#000", title)
	for i, target := range targets {
		color := colors[i%len(colors)]
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, color)
		for _, p := range points {
			if p.Script == script && p.Target == target {
				fmt.Fprintf(b, "%.1f,%.1f ", px(float64(p.Clients)), py(value(p)))
			}
		}
		fmt.Fprint(b, `"/>`+"\n")
		for _, p := range points {
			if p.Script == script && p.Target == target {
				fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", px(float64(p.Clients)), py(value(p)), color)
			}
		}
		text(b, x+panelWidth-4, y+14+16*float64(i), "end", 12, color, target)
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
