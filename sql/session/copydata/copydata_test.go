package copydata

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/memory"
	"meridian/sql/session/result"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// pieces is a client's data, in the pieces in which it arrives.
type pieces [][]byte

func (p *pieces) Next() ([]byte, error) {
	if len(*p) == 0 {
		return nil, io.EOF
	}
	first := (*p)[0]
	*p = (*p)[1:]
	return first, nil
}

var columns = []result.Column{{Name: "i", Type: types.Int8}, {Name: "s", Type: types.Text}, {Name: "b", Type: types.Bytes}}

func options(format string) bind.CopyOptions {
	o := bind.CopyOptions{Format: format, Delimiter: '\t', Null: `\N`, Quote: '"', Escape: '"'}
	if format == "csv" {
		o.Delimiter, o.Null = ',', ""
	}
	return o
}

func reader(src result.CopySource, o bind.CopyOptions) *Reader {
	kinds := make([]*types.T, len(columns))
	names := make([]string, len(columns))
	for i, c := range columns {
		kinds[i], names[i] = c.Type, c.Name
	}
	return NewReader(src, &bind.Copy{Options: o, Names: names, Table: &catalog.Table{Name: "t"}},
		Reading{Kinds: kinds, Memory: memory.NewSession(memory.NewNode(0))})
}

// write returns the data that COPY TO sends for some rows.
func write(t *rapid.T, o bind.CopyOptions, rows []types.Row) []byte {
	w := NewWriter(&o, columns, Writing{Style: &types.Style{}, Memory: memory.NewSession(memory.NewNode(0))})
	data, _, err := w.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Room(r); err != nil {
			t.Fatal(err)
		}
		if data, err = w.Append(data, r); err != nil {
			t.Fatal(err)
		}
	}
	return w.End(data)
}

// cut divides data into pieces at random places.
func cut(t *rapid.T, data []byte) *pieces {
	var out pieces
	for len(data) > 0 {
		n := rapid.IntRange(1, max(1, min(len(data), 9))).Draw(t, "piece")
		out, data = append(out, data[:n]), data[n:]
	}
	return &out
}

func shown(rows []types.Row) string {
	var out []string
	for _, r := range rows {
		for i, d := range r {
			if d.IsNull() {
				out = append(out, "NULL")
			} else {
				out = append(out, fmt.Sprintf("%q", types.FormatText(d, columns[i].Type, nil)))
			}
		}
	}
	return strings.Join(out, " ")
}

// TestThereAndBack: a Reader reads the rows that a Writer has written, in each format, with and without a header, whatever the pieces.
func TestThereAndBack(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("aé\t\n\r\\,\"' N.|")))
	rapid.Check(t, func(t *rapid.T) {
		o := options(rapid.SampledFrom([]string{"text", "csv", "binary"}).Draw(t, "format"))
		if o.Format != "binary" {
			o.Header = rapid.Bool().Draw(t, "header")
			if o.Header {
				o.HeaderMatch = rapid.Bool().Draw(t, "match")
			}
		}
		var rows []types.Row
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := types.Row{types.NewInt(rapid.Int64().Draw(t, "i")), types.NewString(text.Draw(t, "s")), types.NewBytes(text.Draw(t, "b"))}
			for i := range row {
				if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
					row[i] = types.Null
				}
			}
			rows = append(rows, row)
		}
		data := write(t, o, rows)
		r := reader(cut(t, data), o)
		var got []types.Row
		for {
			row := make(types.Row, len(columns))
			err := r.Next(row)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %q: %v", o.Format, data, err)
			}
			got = append(got, row)
		}
		if shown(got) != shown(rows) {
			t.Fatalf("%s: %q\n got %s\nwant %s", o.Format, data, shown(got), shown(rows))
		}
	})
}

// TestCarriageReturns: carriage returns within quotes belong to the value, and those at the end of a line do not, as in PostgreSQL.
func TestCarriageReturns(t *testing.T) {
	r := reader(&pieces{[]byte("1,\"a\r\nb\r\n\",\r\n2,x,\r\n")}, options("csv"))
	for _, want := range []string{`"1" "a\r\nb\r\n" NULL`, `"2" "x" NULL`} {
		row := make(types.Row, len(columns))
		if err := r.Next(row); err != nil || shown([]types.Row{row}) != want {
			t.Errorf("%v: got %s, want %s", err, shown([]types.Row{row}), want)
		}
	}
}

// TestEnds: all lines end as the first one does, and a backslash and a dot end the data, in CSV only as a line of their own; the answers are PostgreSQL's, whatever the pieces.
func TestEnds(t *testing.T) {
	const (
		corrupt = "end-of-copy marker corrupt"
		style   = "end-of-copy marker does not match previous newline style"
	)
	for _, v := range []struct{ format, data, want string }{
		{"text", "1\ta\tb\n2\ta\tb\n", "1 2"}, {"text", "1\ta\tb\r\n2\ta\tb\r\n", "1 2"}, {"text", "1\ta\tb\r2\ta\tb\r", "1 2"}, {"text", "1\ta\tb", "1"},
		{"text", "1\ta\tb\r\n2\ta\tb\n", "1 literal newline found in data"}, {"text", "1\ta\tb\r2\ta\tb\n", "1 literal newline found in data"},
		{"text", "1\ta\tb\n2\ta\tb\r\n", "1 literal carriage return found in data"}, {"text", "1\ta\tb\r\n2\ta\rb\tc\r\n", "1 literal carriage return found in data"},
		{"text", "1\ta\tb\n\\.\nx", "1"}, {"text", "1\ta\tb\\.\nx", "1"}, {"text", "1\ta\tb\n\\.x\n", "1 " + corrupt}, {"text", "1\ta\\.x\n", corrupt}, {"text", "\\.", corrupt},
		{"text", "1\ta\tb\r\n\\.\n", "1 " + style}, {"text", "1\ta\tb\r\n\\.\r\n", "1"}, {"text", "1\ta\tb\n\\.\r\n", "1 " + style}, {"text", "1\ta\tb\r\\.\r", "1"},
		{"text", "1\ta\tb\\\n2\tc\td\n", `extra data after last expected column`}, {"text", "1\ta\tb\\", "1"}, {"text", "1\ta\\\\.\tb\n", "1"},
		{"csv", "1,a,b\r\n2,a,b\n", "1 unquoted newline found in data"}, {"csv", "1,a,b\n2,a\rb,c\n", "1 unquoted carriage return found in data"},
		{"csv", "1,a,b\n\\.\n2,a,b\n", "1"}, {"csv", "1,\"\n\\.\n\",b\n2,a,b\n", "1 2"}, {"csv", "1,\\.,a\n2,a,b\n", "1 2"}, {"csv", "1,a,b\n\\.\r\n", "1 " + style},
		{"csv", "\\.x,a,b\n", `invalid input syntax for type bigint: "\.x"`}, {"csv", "1,a,b\n2,\"a\r\nb\",c\n3,a,b\n", "1 2 3"}, {"csv", "1,a,b\n\\.", `1 invalid input syntax for type bigint: "\."`},
	} {
		for _, size := range []int{1, 2, 3, len(v.data)} {
			var in pieces
			for p := []byte(v.data); len(p) > 0; p = p[min(size, len(p)):] {
				in = append(in, p[:min(size, len(p))])
			}
			r, got := reader(&in, options(v.format)), ""
			for {
				row := make(types.Row, len(columns))
				err := r.Next(row)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					var e *sqlstate.Error
					errors.As(err, &e)
					got += e.Message
					break
				}
				got += fmt.Sprint(row[0].Int(), " ")
			}
			if strings.TrimSpace(got) != v.want {
				t.Errorf("%s %q in pieces of %d: got %q, want %q", v.format, v.data, size, got, v.want)
			}
		}
	}
}

// TestBadData: malformed data is refused, and the error says where it is.
func TestBadData(t *testing.T) {
	for _, v := range []struct{ format, data, message, where string }{
		{"text", "1\tx\n", `missing data for column "b"`, `COPY t, line 1: "1	x"`},
		{"text", "1\tx\ty\tz\n", "extra data after last expected column", `COPY t, line 1: "1	x	y	z"`},
		{"text", "1\tx\ty\nzwei\tx\ty\n", `invalid input syntax for type bigint: "zwei"`, `COPY t, line 2, column i: "zwei"`},
		{"csv", "1,\"x\n", "unterminated CSV quoted field", "COPY t, line 1: \"1,\"x\n\""},
		{"binary", "PGCOPY\n\xff\r\n\x01" + strings.Repeat("\x00", 8), "COPY file signature not recognized", ""},
		{"binary", "PGCOPY\n\xff\r\n\x00" + strings.Repeat("\x00", 8) + "\x00\x02", "row field count is 2, expected 3", ""},
		{"binary", "PGCOPY\n\xff\r\n\x00" + strings.Repeat("\x00", 8) + "\x00", "unexpected EOF in COPY data", ""},
	} {
		r := reader(&pieces{[]byte(v.data)}, options(v.format))
		var err error
		for err == nil {
			err = r.Next(make(types.Row, len(columns)))
		}
		var e *sqlstate.Error
		if !errors.As(err, &e) || e.Message != v.message || e.Context != v.where {
			t.Errorf("%s %q: %v, %q", v.format, v.data, err, e)
		}
	}
}
