package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagsAreDocumented: docs/operate names every flag of `meridian start`, and no flag that no command has.
func TestFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("(?:^|[\\s`(\\[])--([a-z][a-z-]+)").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
	}
	newStartCmd().Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !named[f.Name] {
			t.Errorf("docs/operate/README.md does not say what `meridian start --%s` is", f.Name)
		}
	})
	known := map[string]bool{"help": true, "version": true}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root())
	for name := range named {
		if !known[name] {
			t.Errorf("docs/operate/README.md names --%s, and no command has it", name)
		}
	}
}
