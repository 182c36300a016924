package opttest

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/types"
)

// addCatalog makes PostgreSQL's catalogue tables, without rows.
func (d *db) addCatalog() {
	f, err := os.Open("../../bind/testdata/pg_catalog.txt")
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := strings.SplitN(sc.Text(), " ", 3)
		tab := d.tables[p[0]]
		if tab == nil {
			d.next++
			tab = &catalog.Table{ID: d.next, Name: p[0], Schema: catalog.PGCatalogSchemaID, Kind: catalog.KindVirtual}
			d.tables[p[0]] = tab
		}
		typ, ok := types.FromName(p[2])
		if !ok {
			typ = types.Text
			if strings.HasSuffix(p[2], "[]") || p[2] == "anyarray" {
				typ = types.ArrayOf(types.Text)
			}
		}
		tab.Columns = append(tab.Columns, catalog.Column{ID: catalog.ColumnID(len(tab.Columns) + 1), Name: p[1], Type: typ})
	}
}

// TestPsqlQueriesPlan plans and compiles psql's queries on the catalogue.
func TestPsqlQueriesPlan(t *testing.T) {
	text, err := os.ReadFile("../../bind/testdata/psql15.sql")
	if err != nil {
		t.Fatal(err)
	}
	d := newDB(t)
	d.addCatalog()
	for _, q := range strings.Split(string(text), "\n\n") {
		head, sql, _ := strings.Cut(strings.TrimSpace(q), "\n")
		for _, naive := range []bool{false, true} {
			d.naive = naive
			s, err := d.bind(strings.TrimSuffix(strings.TrimSpace(sql), ";"))
			if err != nil {
				t.Logf("%s: not bound: %v", head, err)
				break
			}
			query, ok := s.(*bind.Query)
			if !ok {
				continue
			}
			p, err := opt.Optimize(query.Query, d.env())
			if err != nil {
				t.Errorf("%s: %v\n%s", head, err, sql)
				continue
			}
			opt.Explain(p, opt.ExplainOptions{Costs: true, Verbose: true})
			if _, err := exec.Build(context.Background(), p, exec.Options{View: d}); err != nil {
				t.Errorf("%s: %v\n%s\n%s", head, err, sql, strings.Join(opt.Explain(p, opt.ExplainOptions{Verbose: true}), "\n"))
			}
		}
	}
}
