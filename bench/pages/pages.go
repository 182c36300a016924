// Package pages is the command line of programs that repeat figures of papers in virtual time: which figures, where their pages go, and what is printed meanwhile.
package pages

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Figure is one of a paper's figures.
type Figure struct {
	Name, Title string
	// About is what its page says before the table: the question, the setup and the departures.
	About string
	// ByName: the figure takes long, and is repeated only if -figures names it.
	ByName bool
	// Run gives the table in Markdown, and the plot.
	Run func(t *testing.T) (table string, svg []byte)
}

// Program is a program of package bench that repeats figures.
type Program struct {
	// Name is that of the program's folder, and of its pages'.
	Name    string
	Figures []Figure
	// Default says in the flag's help which figures are repeated if none is named.
	Default string
	// Quick is set by the flag of this name.
	Quick *bool
	// Partly, if it is not nil, reports whether flags of the program's own leave something out, so that nothing is written.
	Partly   func() bool
	Progress io.Writer
	// Last is what each page says after its table.
	Last string
}

// Main repeats the figures that the command line names. The program has defined flags of its own before. It does not return.
func (p *Program) Main() {
	var names, docs string
	flag.StringVar(&names, "figures", "", "figures to repeat, with commas between (default: "+p.Default+")")
	flag.StringVar(&docs, "docs", "docs/"+p.Name, "write tables and plots into this directory; empty: nowhere")
	flag.BoolVar(p.Quick, "quick", false, "fewer clients and shorter runs; nothing is written")
	testing.Init()
	flag.Parse()
	if *p.Quick || p.Partly != nil && p.Partly() {
		docs = ""
	}
	var tests []testing.InternalTest
	for _, f := range p.Figures {
		if names == "" && f.ByName || names != "" && !slices.Contains(strings.Split(names, ","), f.Name) {
			continue
		}
		// Virtual time exists within tests only, so each experiment is one.
		tests = append(tests, testing.InternalTest{Name: f.Name, F: func(t *testing.T) {
			begin := time.Now()
			table, svg := f.Run(t)
			if t.Failed() {
				return
			}
			fmt.Fprintf(p.Progress, "%s took %s\n", f.Name, time.Since(begin).Round(time.Second))
			fmt.Printf("%s\n\n%s\n", f.Title, table)
			if docs == "" {
				return
			}
			if err := p.write(docs, &f, table, svg); err != nil {
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
func (p *Program) write(dir string, f *Figure, table string, svg []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	last := strings.TrimSpace(p.Last)
	if last != "" {
		last += "\n\n"
	}
	page := fmt.Sprintf("# %s\n\n%s\n\n![%s](%s.svg)\n\n%s\n\n%sMade by `go run ./bench/%s -figures %s`.\n",
		f.Title, strings.TrimSpace(f.About), f.Title, f.Name, strings.TrimSpace(table), last, p.Name, f.Name)
	if err := os.WriteFile(filepath.Join(dir, f.Name+".md"), []byte(page), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, f.Name+".svg"), svg, 0o644)
}
