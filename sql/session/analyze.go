package session

import (
	"context"
	"math"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/types"
)

// sampleRows is how many rows ANALYZE looks at in detail; all of them are counted.
const sampleRows = 10_000

// analyze collects statistics of tables, of all tables of the database if none are named.
func (s *Session) analyze(ctx context.Context, c *bind.Analyze) error {
	s.ensureTxn()
	tables := c.Tables
	if tables == nil {
		all, err := s.view().Tables(ctx, s.client.Database)
		if err != nil {
			return err
		}
		tables = all
	}
	for _, t := range tables {
		if t.Kind != catalog.KindTable || t.Dropped {
			continue
		}
		st, err := s.collect(ctx, t)
		if err != nil {
			return err
		}
		if err := s.srv.Catalog.PutStatistics(ctx, t.ID, st); err != nil {
			return err
		}
	}
	return nil
}

// collect counts a table's rows, and estimates each column's distinct values from the first rows in key order.
func (s *Session) collect(ctx context.Context, t *catalog.Table) (*catalog.Statistics, error) {
	name := `"` + escapeIdent(t.Name) + `"`
	if schema, err := s.schemaName(ctx, t); err != nil {
		return nil, err
	} else if schema != "" {
		name = `"` + escapeIdent(schema) + `".` + name
	}
	st := &catalog.Statistics{Columns: map[catalog.ColumnID]catalog.ColumnStatistics{}}
	if err := s.rows(ctx, "SELECT count(*) FROM "+name, func(r types.Row) { st.Rows = r[0].Int() }); err != nil {
		return nil, err
	}
	var cols []*catalog.Column
	list := ""
	for i := range t.Columns {
		if col := &t.Columns[i]; col.State == catalog.Public && !col.Hidden {
			if list != "" {
				list += ", "
			}
			list += `"` + escapeIdent(col.Name) + `"`
			cols = append(cols, col)
		}
	}
	if len(cols) == 0 {
		return st, nil
	}
	type tally struct {
		seen         map[string]struct{}
		nulls, width int64
	}
	tallies := make([]tally, len(cols))
	for i := range tallies {
		tallies[i].seen = map[string]struct{}{}
	}
	sampled := int64(0)
	var key, text []byte
	err := s.rows(ctx, "SELECT "+list+" FROM "+name+" LIMIT "+itoa(sampleRows), func(r types.Row) {
		sampled++
		for i, d := range r {
			if d.IsNull() {
				tallies[i].nulls++
				continue
			}
			key = types.AppendHashKey(key[:0], d, cols[i].Type)
			tallies[i].seen[string(key)] = struct{}{}
			text = types.AppendText(text[:0], d, cols[i].Type, s.location)
			tallies[i].width += int64(len(text))
		}
	})
	if err != nil || sampled == 0 {
		return st, err
	}
	for i, col := range cols {
		n := int64(len(tallies[i].seen))
		// Values that hardly repeat in the sample go on growing with the table; others are taken to be all there.
		if scale := float64(st.Rows) / float64(sampled); n > sampled*9/10 {
			n = int64(math.Ceil(float64(n) * scale))
		}
		width := tallies[i].width / max(sampled-tallies[i].nulls, 1)
		st.Bytes += width * st.Rows
		st.Columns[col.ID] = catalog.ColumnStatistics{Distinct: n, AvgWidth: width,
			NullCount: int64(float64(tallies[i].nulls) * float64(st.Rows) / float64(sampled))}
	}
	return st, nil
}

// rows runs a query of the session's own.
func (s *Session) rows(ctx context.Context, text string, f func(types.Row)) error {
	stmt, err := parse.ParseOne(text)
	if err != nil {
		return err
	}
	bound, err := s.binder(nil).Bind(ctx, stmt)
	if err != nil {
		return err
	}
	_, err = s.runBound(ctx, bound.(*bind.Query), nil, func(r types.Row) error { f(r); return nil })
	return err
}

func (s *Session) schemaName(ctx context.Context, t *catalog.Table) (string, error) {
	all, err := s.view().Schemas(ctx, s.client.Database)
	if err != nil {
		return "", err
	}
	for _, x := range all {
		if x.ID == t.Schema {
			return x.Name, nil
		}
	}
	return "", nil
}

func escapeIdent(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] == '"' {
			out = append(out, '"')
		}
		out = append(out, s[i])
	}
	return string(out)
}
