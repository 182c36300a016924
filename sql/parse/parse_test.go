package parse

import (
	"os"
	"strings"
	"testing"
)

func TestPsqlCorpus(t *testing.T) {
	b, err := os.ReadFile("../bind/testdata/psql15.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range strings.Split(string(b), "\n\n") {
		q = strings.TrimSpace(q)
		if q == "" {
			continue
		}
		head, text, _ := strings.Cut(q, "\n")
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v\n%s", head, err, text)
		}
	}
}
