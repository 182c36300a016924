package bind

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// apply carries a definition out on the fake catalogue, far enough for later statements to bind.
func (v *fakeView) apply(s Statement) bool {
	oid := func() catalog.ID { v.next++; return v.next }
	switch s := s.(type) {
	case *CreateTable:
		if s.Exists {
			return true
		}
		t := s.Descriptor(oid(), 100, catalog.PublicSchemaID, "root", oid)
		v.tables[s.Name.Schema+"."+s.Name.Name] = t
		for i := range s.Columns {
			if q := s.Columns[i].Sequence; q != nil {
				v.apply(q)
			}
		}
	case *CreateView:
		v.tables[s.Name.Schema+"."+s.Name.Name] = s.Descriptor(oid(), 100, catalog.PublicSchemaID, "root")
	case *CreateSequence:
		d := s.Definition
		v.tables[s.Name.Schema+"."+s.Name.Name] = &catalog.Table{ID: oid(), Name: s.Name.Name, Database: 100, Schema: catalog.PublicSchemaID, Kind: catalog.KindSequence, Sequence: &d}
	case *CreateIndex:
		AppendIndex(s.Table, &s.Index, oid())
	case *AlterTable:
		for _, a := range s.Actions {
			if c, ok := a.(*AddColumn); ok {
				AppendColumn(s.Table, &c.Column)
			}
		}
	default:
		return false
	}
	return true
}

func describeError(err error) string {
	var e *sqlstate.Error
	if !errors.As(err, &e) {
		return "error without code: " + err.Error() + "\n"
	}
	s := fmt.Sprintf("ERROR %s at %d: %s\n", e.Code, e.Position, e.Message)
	if e.Detail != "" {
		s += "DETAIL: " + e.Detail + "\n"
	}
	if e.Hint != "" {
		s += "HINT: " + e.Hint + "\n"
	}
	return s
}

// describe prints a command struct field by field.
func describe(v any) string {
	var b strings.Builder
	dump(&b, reflect.ValueOf(v), 0)
	return b.String()
}

func dump(b *strings.Builder, v reflect.Value, depth int) {
	pad := strings.Repeat("  ", depth)
	switch x := v.Interface().(type) {
	case *catalog.Table:
		if x != nil {
			fmt.Fprintf(b, "table %s\n", x.Name)
		} else {
			b.WriteString("nil\n")
		}
		return
	case *catalog.Index:
		if x != nil {
			fmt.Fprintf(b, "index %s\n", x.Name)
		}
		return
	case *types.T:
		fmt.Fprintf(b, "%s\n", x)
		return
	case *Query:
		if x != nil {
			b.WriteString("\n")
			for _, l := range strings.Split(strings.TrimSuffix(printQuery(x), "\n"), "\n") {
				fmt.Fprintf(b, "%s  %s\n", pad, l)
			}
		}
		return
	case *parse.Statement:
		fmt.Fprintf(b, "statement %q\n", x.Text())
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil\n")
			return
		}
		dump(b, v.Elem(), depth)
	case reflect.Struct:
		fmt.Fprintf(b, "%s\n", v.Type().Name())
		for i := range v.NumField() {
			f := v.Field(i)
			if f.IsZero() || !v.Type().Field(i).IsExported() {
				continue
			}
			fmt.Fprintf(b, "%s  %s: ", pad, v.Type().Field(i).Name)
			dump(b, f, depth+1)
		}
	case reflect.Slice:
		if v.Len() > 0 && v.Index(0).Kind() == reflect.String || v.Len() == 0 {
			fmt.Fprintf(b, "%v\n", v.Interface())
			return
		}
		b.WriteString("\n")
		for i := range v.Len() {
			fmt.Fprintf(b, "%s    - ", pad)
			dump(b, v.Index(i), depth+2)
		}
	case reflect.String:
		fmt.Fprintf(b, "%q\n", v.String())
	default:
		fmt.Fprintf(b, "%v\n", v.Interface())
	}
}

// TestBind runs the scripts of testdata: "ddl" carries definitions out, "bind" prints what one statement becomes,
// "err" prints the error of each line, and "adding" says that the columns table.column of its lines are being added.
func TestBind(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		v := newFakeView(t)
		b := newBinder(v)
		ctx := context.Background()
		run := func(sql string) (Statement, error) {
			stmts, err := parse.Parse(sql)
			if err != nil {
				return nil, err
			}
			var s Statement
			for i := range stmts {
				if s, err = b.Bind(ctx, &stmts[i]); err != nil {
					return nil, err
				}
			}
			return s, nil
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.ParamTypes = nil
			var out strings.Builder
			switch d.Cmd {
			case "ddl":
				stmts, err := parse.Parse(d.Input)
				if err != nil {
					return describeError(err)
				}
				for i := range stmts {
					s, err := b.Bind(ctx, &stmts[i])
					if err != nil {
						return describeError(err)
					}
					if !v.apply(s) {
						return fmt.Sprintf("can't apply %T", s)
					}
				}
				return "ok\n"
			case "adding":
				for _, l := range strings.Split(d.Input, "\n") {
					table, column, _ := strings.Cut(l, ".")
					v.tables["public."+table].ColumnByName(column).State = catalog.WriteOnly
				}
				return "ok\n"
			case "err":
				for _, l := range strings.Split(d.Input, "\n") {
					s, err := run(l)
					if err == nil {
						fmt.Fprintf(&out, "no error: %T\n", s)
						continue
					}
					out.WriteString(describeError(err))
				}
				return out.String()
			case "bind":
				s, err := run(d.Input)
				if err != nil {
					return describeError(err)
				}
				if q, ok := s.(*Query); ok {
					return printQuery(q)
				}
				return describe(s)
			case "types": // one select list per line: its column names and types
				for _, l := range strings.Split(d.Input, "\n") {
					s, err := run(l)
					if err != nil {
						out.WriteString(describeError(err))
						continue
					}
					var cols []string
					for _, o := range s.(*Query).Output {
						cols = append(cols, o.Name+" "+o.Type.String())
					}
					out.WriteString(strings.Join(cols, ", "))
					if ps := s.(*Query).ParamTypes; len(ps) > 0 {
						out.WriteString(" params")
						for _, p := range ps {
							out.WriteString(" " + p.String())
						}
					}
					out.WriteByte('\n')
				}
				return out.String()
			}
			return "unknown command"
		})
	})
}
