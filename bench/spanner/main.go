package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/bench/pages"
)

// figure is one of the paper's figures or tables, or of our own.
type figure struct {
	name  string
	title string
	// about has the question, the setup and the departures, for the page of results (about.go).
	about string
	run   func(t *testing.T, c *config) *outcome
}

// figures lists them in the order of the paper.
func figures() []figure {
	return []figure{
		{"table3", "Latencies of single operations (Spanner, table 3)", aboutTable3, runTable3},
		{"table4", "Commits over many ranges (Spanner, table 4)", aboutTable4, runTable4},
		{"figure5", "The loss of a zone (Spanner, figure 5)", aboutFigure5, runFigure5},
		{"figure6", "The uncertainty of time (Spanner, figure 6)", aboutFigure6, runFigure6},
		{"table6", "A mix like F1's (Spanner, table 6)", aboutTable6, runTable6},
		{"promise", "What external consistency costs", aboutPromise, runPromise},
		{"schema", "Changes of schemas at a registered time", aboutSchema, runSchema},
	}
}

// outcome is what an experiment found.
type outcome struct {
	table string // in Markdown
	svg   []byte
}

// config has the command line's flags.
type config struct {
	quick    bool
	progress io.Writer
}

// say writes a line of progress.
func (c *config) say(format string, args ...any) {
	fmt.Fprintf(c.progress, format+"\n", args...)
}

func main() {
	c := config{progress: os.Stderr}
	p := pages.Program{Name: "spanner", Default: "all", Quick: &c.quick, Progress: c.progress}
	for _, f := range figures() {
		p.Figures = append(p.Figures, pages.Figure{Name: f.name, Title: f.title, About: strings.ReplaceAll(f.about, "''", "`"), Run: f.result(&c)})
	}
	p.Main()
}

// result is the figure as package pages runs it.
func (f figure) result(c *config) func(t *testing.T) (string, []byte) {
	return func(t *testing.T) (string, []byte) {
		o := f.run(t, c)
		if o == nil { // it has failed
			return "", nil
		}
		return o.table, o.svg
	}
}

// bubble runs f in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { synctest.Test(t, f) })
}
