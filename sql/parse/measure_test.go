package parse

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"meridian/sql/sqlstate"
)

// longTexts are statements of n repeated parts, by shape.
var longTexts = []struct{ name, head, part, tail string }{
	{"IN", "select 1 in (", "1,", "1)"},
	{"long constants", "select 1 in (", "'a constant of some length',", "'a')"},
	{"VALUES", "values ", "(1,'abc'),", "(1,'a')"},
	{"names", "select ", "a,", "a"},
	{"qualified names", "select ", "a.b,", "a"},
	{"tables", "select 1 from a", ",a", ""},
	{"joins", "select 1 from a", " cross join a", ""},
	{"UNION", "select 1", " union select 1", ""},
	{"CTE", "with a as (select 1)", ",b as (select 1)", "select 1"},
	{"CASE", "select case", " when a then b", " end"},
	{"AND", "select a", " and a = 1", ""},
	{"casts", "select 1", "::int", ""},
	{"columns", "create table t(a int", ",a int", ")"},
	{"ARRAY", "select array[", "1,", "1]"},
	{"calls", "select ", "f(distinct a),", "a"},
	{"sums", "select ", "(a+b),", "a"},
	{"statements", "", "select 1;", ""},
	{"commands", "", "begin;", ""},
	{"copies", "", "prepare p as select a from t;", ""},
}

func TestBytesOfStatements(t *testing.T) {
	for _, c := range longTexts {
		sql := c.head + strings.Repeat(c.part, 1<<13) + c.tail
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		stmts, err := Parse(sql)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var counted int64
		for i := range stmts {
			counted += stmts[i].Bytes
		}
		held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		runtime.KeepAlive(stmts)
		t.Logf("%-16s %8d bytes of text: %9d held, %9d counted", c.name, len(sql), held, counted)
		if counted < held*2/3 || counted > 20*held+1<<16 {
			t.Errorf("%s: %d bytes are counted, and %d are held", c.name, counted, held)
		}
	}
	// A long constant costs its bytes.
	stmts, err := Parse("select '" + strings.Repeat("a", 5_000_000) + "'")
	if err != nil || stmts[0].Bytes > 11_000_000 {
		t.Errorf("a constant of 5 MB: %d bytes, %v", stmts[0].Bytes, err)
	}
}

// Memory for a text is asked for as it is read, so that it can be given up.
func TestTextsAreReadWithinRoom(t *testing.T) {
	enough := errors.New("enough")
	for _, c := range longTexts {
		sql := c.head + strings.Repeat(c.part, 1<<13) + c.tail
		var asked, taken, most int64
		last := int64(1) << 62
		room := func(b int64) error {
			if taken += b; asked == last {
				return enough
			}
			asked++
			most = max(most, taken)
			return nil
		}
		stmts, err := new(Parser).ParseWithin(sql, room)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		toks, _ := lex(sql, 0, nil)
		if least := int64(len(toks)/stride + len(stmts)); asked < least {
			t.Errorf("%s: %d tokens and %d statements asked %d times", c.name, len(toks), len(stmts), asked)
		}
		var bytes int64
		for i := range stmts {
			bytes += stmts[i].Bytes
		}
		if taken != bytes || most < bytes+int64(len(toks))*lexedBytes {
			t.Errorf("%s: %d bytes are taken afterwards, at most %d, of statements of %d", c.name, taken, most, bytes)
		}
		all := asked
		for _, last = range []int64{0, 1, all / 2, all - 3} {
			asked, taken = 0, 0
			if _, err := new(Parser).ParseWithin(sql, room); err != enough || asked != last {
				t.Errorf("%s: room failed at call %d of %d: %v after %d", c.name, last, all, err, asked)
			}
		}
	}
}

// A text that would be refused later, after seconds, is refused before the grammar has it.
func TestTextsBeyondBounds(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		code      sqlstate.Code
		message   string
	}{
		{"operators", "select " + strings.Repeat("a.b+", 30_000) + "1", sqlstate.StatementTooComplex, "stack depth limit exceeded"},
		{"signs", "select " + strings.Repeat("- ", 30_000) + "1", sqlstate.StatementTooComplex, "stack depth limit exceeded"},
		{"tokens", "select 1 in (" + strings.Repeat("1,", MaxTokens/2) + "1)", sqlstate.ProgramLimitExceeded, ""},
		{"EXPLAIN", strings.Repeat("explain ", 50_000) + "select 1", sqlstate.SyntaxError, `syntax error at or near "explain"`},
		{"PREPARE", strings.Repeat("prepare p as ", 20_000) + "select 1", sqlstate.SyntaxError, `syntax error at or near "prepare"`},
		{"DECLARE", strings.Repeat("declare c cursor for ", 20_000) + "select 1", sqlstate.SyntaxError, `syntax error at or near "declare"`},
		{"COPY", strings.Repeat("copy (", 4_000) + "select 1" + strings.Repeat(") to stdout", 4_000), sqlstate.SyntaxError, `syntax error at or near "copy"`},
		{"EXPLAIN COPY", "explain copy t to stdout", sqlstate.SyntaxError, `syntax error at or near "copy"`},
	} {
		var room int
		_, err := new(Parser).ParseWithin(c.sql, func(b int64) error { room++; return nil })
		var e *sqlstate.Error
		if !errors.As(err, &e) || e.Code != c.code || c.message != "" && e.Message != c.message {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, sql := range []string{
		"explain declare c cursor for select 1",
		"select case " + strings.Repeat(" when a = 1 then b + 1", 30_000) + " end",
		"select a = 1" + strings.Repeat(" and a = 1", 30_000),
		"select 1 in (" + strings.Repeat("-1,", 100_000) + "1)",
		"values " + strings.Repeat("(1, -1, 2 + 3),", 30_000) + "(1, 2, 3)",
	} {
		if _, err := Parse(sql); err != nil {
			t.Errorf("%.40s: %v", sql, err)
		}
	}
}
