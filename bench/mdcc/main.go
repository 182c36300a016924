package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	var names, docs string
	flag.StringVar(&names, "figures", "", "figures to repeat, with commas between (default: all)")
	flag.StringVar(&docs, "docs", "docs/mdcc", "write tables and plots into this directory; empty: nowhere")
	flag.BoolVar(&c.quick, "quick", false, "fewer clients and shorter runs; nothing is written")
	testing.Init()
	flag.Parse()
	if c.quick {
		docs = ""
	}
	var tests []testing.InternalTest
	for _, f := range figures() {
		if names != "" && !slices.Contains(strings.Split(names, ","), f.name) {
			continue
		}
		// Virtual time exists within tests only, so each experiment is one.
		tests = append(tests, testing.InternalTest{Name: f.name, F: func(t *testing.T) {
			begin := time.Now()
			o := f.run(t, &c)
			if t.Failed() {
				return
			}
			c.say("%s took %s", f.name, time.Since(begin).Round(time.Second))
			fmt.Printf("%s\n\n%s\n", f.title, o.table)
			if docs == "" {
				return
			}
			if err := f.write(docs, o); err != nil {
				t.Fatal(err)
			}
		}})
	}
	if len(tests) == 0 {
		fmt.Fprintln(os.Stderr, "ERROR: no such figure")
		os.Exit(1)
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, tests, nil, nil)
}

// write keeps the result as a page with its plot.
func (f *figure) write(dir string, o *outcome) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	about := strings.ReplaceAll(strings.TrimSpace(f.about), "''", "`")
	page := fmt.Sprintf("# %s\n\n%s\n\n![%s](%s.svg)\n\n%s\n\n%s\n\nMade by `go run ./bench/mdcc -figures %s`.\n",
		f.title, about, f.title, f.name, strings.TrimSpace(o.table), strings.TrimSpace(aboutEC2()), f.name)
	if err := os.WriteFile(filepath.Join(dir, f.name+".md"), []byte(page), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, f.name+".svg"), o.svg, 0o644)
}

// bubble runs f in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
