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

// figure is one of the paper's figures.
type figure struct {
	name  string
	title string
	// about has the question, the setup and the departures, for the page of results (about.go).
	about string
	run   func(t *testing.T, c *config) *outcome
}

// figures lists them in the order of the paper.
func figures() []figure {
	return []figure{figure3(), figure4(), figure5(), figure6(), figure7(), figure8()}
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
	p := pages.Program{Name: "mdcc", Default: "all", Quick: &c.quick, Progress: c.progress, Last: aboutEC2()}
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
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
