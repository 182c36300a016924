// Package plot draws curves, bars and distributions as SVG, for the pages of experiments.
package plot

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"
)

// Series is one curve.
type Series struct {
	Name, Color string
	X, Y        []float64
	Dashed      bool
}

// From is the part of a curve at and above some y.
func (c Series) From(y float64) Series {
	n := 0
	for n < len(c.Y) && c.Y[n] < y {
		n++
	}
	c.X, c.Y = c.X[n:], c.Y[n:]
	return c
}

// Panel is one plot.
type Panel struct {
	Title, XLabel, YLabel string
	LogX                  bool
	XMin, XMax            float64
	YMin, YMax            float64 // both zero: from 0 to the largest value
	Curves                []Series
	// Marks are dashed lines at some x, with words.
	Marks []Mark
}

// Mark is a value of an axis, with words.
type Mark struct {
	X    float64
	Text string
	// Color, if any, is that of a curve that the mark belongs to.
	Color string
}

// Color is the i-th of some colors that are also legible next to each other for readers who do not see all of them. They begin again after the last one.
func Color(i int) string {
	list := [...]string{"#1f6f4a", "#b3472a", "#2a5db3", "#8a5a00", "#6b2a8a", "#0f7f8f"}
	return list[i%len(list)]
}

const (
	panelWidth, panelHeight = 400.0, 240.0
	marginLeft, marginTop   = 64.0, 56.0
	gapX, gapY              = 90.0, 120.0
)

// Draw puts panels side by side, and notes below them.
func Draw(title string, perRow int, panels []Panel, notes []string) []byte {
	rows := (len(panels) + perRow - 1) / perRow
	width := marginLeft + float64(perRow)*(panelWidth+gapX)
	height := marginTop + float64(rows)*(panelHeight+gapY) + float64(len(notes))*16 + 10
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", width, height)
	text(&b, width/2, 22, "middle", 15, "#000", title)
	for i := range panels {
		x := marginLeft + float64(i%perRow)*(panelWidth+gapX)
		y := marginTop + float64(i/perRow)*(panelHeight+gapY)
		panels[i].draw(&b, x, y)
	}
	for i, n := range notes {
		text(&b, marginLeft, height-float64(len(notes)-i)*16, "start", 12, "#333", n)
	}
	fmt.Fprint(&b, "</svg>\n")
	return b.Bytes()
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func text(b *bytes.Buffer, x, y float64, anchor string, size int, color, s string) {
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="%s" font-size="%d" fill="%s">%s</text>`+"\n", x, y, anchor, size, color, escape.Replace(s))
}

func line(b *bytes.Buffer, x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

// draw draws one panel with its upper left corner at a point.
func (p *Panel) draw(b *bytes.Buffer, left, top float64) {
	low, high := p.YMin, p.YMax
	if low == 0 && high == 0 {
		for _, c := range p.Curves {
			for _, v := range c.Y {
				high = max(high, v)
			}
		}
		high = max(high*1.08, 1e-9)
	}
	px := func(v float64) float64 {
		if p.LogX {
			v = max(v, p.XMin)
			return left + (math.Log(v)-math.Log(p.XMin))/(math.Log(p.XMax)-math.Log(p.XMin))*panelWidth
		}
		return left + (v-p.XMin)/(p.XMax-p.XMin)*panelWidth
	}
	py := func(v float64) float64 { return top + panelHeight - (v-low)/(high-low)*panelHeight }
	text(b, left+panelWidth/2, top-8, "middle", 13, "#000", p.Title)
	step := niceStep((high - low) / 5)
	for v := math.Ceil(low/step) * step; v <= high+step/1000; v += step {
		line(b, left, py(v), left+panelWidth, py(v), `stroke="#ddd"`)
		text(b, left-6, py(v)+4, "end", 11, "#444", fmt.Sprintf("%g", math.Round(v*1e6)/1e6))
	}
	tick := func(v float64) {
		line(b, px(v), top+panelHeight, px(v), top+panelHeight+4, `stroke="#444"`)
		text(b, px(v), top+panelHeight+16, "middle", 11, "#444", fmt.Sprintf("%g", v))
	}
	if p.LogX {
		for v := math.Pow(10, math.Ceil(math.Log10(p.XMin))); v <= p.XMax; v *= 10 {
			tick(v)
		}
	} else {
		step := niceStep((p.XMax - p.XMin) / 6)
		for v := math.Ceil(p.XMin/step) * step; v <= p.XMax; v += step {
			tick(v)
		}
	}
	line(b, left, top+panelHeight, left+panelWidth, top+panelHeight, `stroke="#444"`)
	text(b, left+panelWidth/2, top+panelHeight+32, "middle", 12, "#000", p.XLabel)
	text(b, left, top-8, "start", 11, "#444", p.YLabel)
	for i, m := range p.Marks {
		stroke, fill, rows := "#888", "#666", 2
		if m.Color != "" {
			stroke, fill, rows = m.Color, m.Color, len(p.Marks)
		}
		line(b, px(m.X), top, px(m.X), top+panelHeight, `stroke="`+stroke+`" stroke-dasharray="4 3"`)
		text(b, px(m.X)+3, top+12+12*float64(i%rows), "start", 10, fill, m.Text)
	}
	for i, c := range p.Curves {
		style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="1.8"`, c.Color)
		if c.Dashed {
			style += ` stroke-dasharray="6 3"`
		}
		fmt.Fprintf(b, `<polyline %s points="`, style)
		for j := range c.X {
			fmt.Fprintf(b, "%.1f,%.1f ", px(c.X[j]), py(min(max(c.Y[j], low), high)))
		}
		fmt.Fprint(b, `"/>`+"\n")
		text(b, left+6+float64(i%2)*panelWidth/2, top+panelHeight+48+14*float64(i/2), "start", 11, c.Color, "■ "+c.Name)
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

// BarGroup is a label with one bar for each name of a legend.
type BarGroup struct {
	Label  string
	Values []float64
}

// Bars draws groups of horizontal bars, one below the other.
func Bars(title, axis string, names []string, groups []BarGroup) []byte {
	const bar, width, labels = 11.0, 560.0, 190.0
	top := 70 + 16*float64((len(names)+3)/4)
	group := bar*float64(len(names)) + 10
	height := top + group*float64(len(groups)) + 40
	high := 1e-9
	for _, g := range groups {
		for _, v := range g.Values {
			high = max(high, v)
		}
	}
	var b bytes.Buffer
	full := labels + width + 70
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", full, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", full, height)
	text(&b, full/2, 22, "middle", 15, "#000", title)
	for i, n := range names {
		text(&b, labels+float64(i%4)*150, 46+16*float64(i/4), "start", 12, Color(i), "■ "+n)
	}
	step := niceStep(high / 6)
	for v := 0.0; v <= high+step/1000; v += step {
		x := labels + v/high*width
		line(&b, x, top-6, x, height-30, `stroke="#ddd"`)
		text(&b, x, height-14, "middle", 11, "#444", fmt.Sprintf("%g", math.Round(v*1e6)/1e6))
	}
	text(&b, labels+width/2, height-1, "middle", 12, "#000", axis)
	for i, g := range groups {
		y := top + group*float64(i)
		text(&b, labels-8, y+bar*float64(len(names))/2+4, "end", 12, "#000", g.Label)
		for j, v := range g.Values {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", labels, y+bar*float64(j), v/high*width, bar-1.5, Color(j))
			text(&b, labels+v/high*width+4, y+bar*float64(j)+9, "start", 10, "#444", fmt.Sprintf("%g", math.Round(v*1000)/1000))
		}
	}
	fmt.Fprint(&b, "</svg>\n")
	return b.Bytes()
}

// Violin has two distributions of latencies, drawn to the left and to the right of one line.
type Violin struct {
	Label       string
	Left, Right []time.Duration
}

// Violins draws violins next to each other above a logarithmic axis of milliseconds, with some of its values marked.
func Violins(title string, list []Violin, marks []Mark) []byte {
	const width, height, left, top, low, high, bins = 84.0, 360.0, 70.0, 60.0, 0.1, 2000.0, 110
	full := left + width*float64(len(list)) + 50
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", full, height+top+70)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", full, height+top+70)
	text(&b, full/2, 22, "middle", 15, "#000", title)
	text(&b, left, 44, "start", 12, Color(2), "■ reads (left)")
	text(&b, left+110, 44, "start", 12, Color(1), "■ writes (right)")
	text(&b, left-60, top-8, "start", 11, "#444", "latency, ms")
	share := func(ms float64) float64 {
		return (math.Log(min(max(ms, low), high)) - math.Log(low)) / (math.Log(high) - math.Log(low))
	}
	py := func(ms float64) float64 { return top + height*(1-share(ms)) }
	for v := low; v <= high; v *= 10 {
		line(&b, left, py(v), full-50, py(v), `stroke="#ddd"`)
		text(&b, left-6, py(v)+4, "end", 11, "#444", fmt.Sprintf("%g", v))
	}
	for _, m := range marks {
		line(&b, left, py(m.X), full-50, py(m.X), `stroke="#888" stroke-dasharray="4 3"`)
		text(&b, full-46, py(m.X)+4, "start", 10, "#666", m.Text)
	}
	for i, v := range list {
		x := left + width*(float64(i)+0.5)
		for side, l := range [][]time.Duration{v.Left, v.Right} {
			if len(l) == 0 {
				continue
			}
			// Widths are the roots of shares, so that rare latencies are seen too.
			var counts [bins]float64
			for _, d := range l {
				counts[min(int(share(float64(d)/1e6)*bins), bins-1)]++
			}
			sign := float64(2*side - 1)
			color := Color(2 - side)
			for bin, n := range counts {
				if n == 0 {
					continue
				}
				w := (0.06 + 0.94*math.Sqrt(n/float64(len(l)))) * width * 0.46
				y := top + height*(1-float64(bin+1)/bins)
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", min(x, x+sign*w), y, w, height/bins+0.3, color)
			}
		}
		line(&b, x, top, x, top+height, `stroke="#444" stroke-width="0.5"`)
		for j, word := range strings.SplitN(v.Label, " ", 2) {
			text(&b, x, top+height+18+14*float64(j), "middle", 12, "#000", word)
		}
	}
	fmt.Fprint(&b, "</svg>\n")
	return b.Bytes()
}

// Box is a distribution with its least value, its quartiles, and its largest, or some value near that.
type Box struct {
	Label, Color string
	Values       [5]float64
}

// Boxes draws distributions next to each other.
func Boxes(title, axis string, list []Box) []byte {
	const width, height, left, top = 76.0, 320.0, 70.0, 60.0
	full, high := left+width*float64(len(list))+30, 1e-9
	for _, b := range list {
		high = max(high, b.Values[4]*1.05)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", full, height+top+60)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", full, height+top+60)
	text(&b, full/2, 22, "middle", 15, "#000", title)
	text(&b, left, top-10, "start", 11, "#444", axis)
	py := func(v float64) float64 { return top + height*(1-v/high) }
	step := niceStep(high / 6)
	for v := 0.0; v <= high; v += step {
		line(&b, left, py(v), full-30, py(v), `stroke="#ddd"`)
		text(&b, left-6, py(v)+4, "end", 11, "#444", fmt.Sprintf("%g", v))
	}
	for i, x := range list {
		center := left + width*(float64(i)+0.5)
		style := fmt.Sprintf(`stroke="%s" stroke-width="1.6"`, x.Color)
		for _, end := range [][2]float64{{x.Values[0], x.Values[1]}, {x.Values[3], x.Values[4]}} {
			line(&b, center, py(end[0]), center, py(end[1]), style)
		}
		for _, v := range []float64{x.Values[0], x.Values[4]} {
			line(&b, center-10, py(v), center+10, py(v), style)
		}
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="44" height="%.1f" fill="none" %s/>`+"\n", center-22, py(x.Values[3]), max(py(x.Values[1])-py(x.Values[3]), 1), style)
		line(&b, center-22, py(x.Values[2]), center+22, py(x.Values[2]), fmt.Sprintf(`stroke="%s" stroke-width="3"`, x.Color))
		for j, word := range strings.SplitN(x.Label, " ", 2) {
			text(&b, center, top+height+18+14*float64(j), "middle", 12, x.Color, word)
		}
	}
	fmt.Fprint(&b, "</svg>\n")
	return b.Bytes()
}
