package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"

	"meridian/bench/pages"
)

// figure is one of a paper's figures.
type figure struct {
	name  string
	title string
	// about has the question, the setup and the departures, for the page of results.
	about string
	run   func(t *testing.T, c *config) *outcome
	// byName: the figure takes long, and is repeated only if -figures names it.
	byName bool
}

// figures lists them in the order of their papers.
func figures() []figure {
	return []figure{figure3a(), figure3b(), figure3c(), figure4(), figure5(), table2(), figure6(), figure5Large()}
}

// outcome is what an experiment found.
type outcome struct {
	table string // in Markdown
	svg   []byte
}

// config has the command line's flags.
type config struct {
	quick    bool
	part     string // only variants of figure 4 with this in their names
	progress io.Writer
}

// say writes a line of progress.
func (c *config) say(format string, args ...any) {
	fmt.Fprintf(c.progress, format+"\n", args...)
}

func main() {
	c := config{progress: os.Stderr}
	flag.StringVar(&c.part, "part", "", "only the variants of figure 4 that have this in their names; nothing is written")
	p := pages.Program{Name: "regions", Default: "all but figure5large, which takes as long as the others together", Quick: &c.quick, Progress: c.progress, Partly: func() bool { return c.part != "" }}
	for _, f := range figures() {
		p.Figures = append(p.Figures, pages.Figure{Name: f.name, Title: f.title, About: f.about, ByName: f.byName, Run: f.result(&c)})
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
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
