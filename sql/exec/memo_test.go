package exec

import (
	"testing"

	"meridian/sql/memory"
	"meridian/sql/types"
)

// TestMemo: an answer is found for its values only, however equal others are; a memo is bounded, and its account has its memory; and a
// memo whose values never repeat is given up.
func TestMemo(t *testing.T) {
	account := memory.NewSession(memory.NewNode(1 << 30))
	number := func(s string) types.Datum {
		d, err := types.ParseText(types.Decimal, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ts := []*types.T{types.Decimal, types.Decimal}
	var m memo[string]
	for _, v := range []struct{ a, b, answer string }{{"1", "23", "a"}, {"12", "3", "b"}, {"1.0", "23", "c"}} {
		values := []types.Datum{number(v.a), number(v.b)}
		if got, ok := m.find(values, ts); ok {
			t.Errorf("%s, %s has the answer %q of others", v.a, v.b, got)
		}
		m.keep(account, v.answer, 0)
		if got, ok := m.find(values, ts); !ok || got != v.answer {
			t.Errorf("%s, %s: %q, %v", v.a, v.b, got, ok)
		}
	}
	null := []types.Datum{types.Null, number("23")}
	if got, ok := m.find(null, ts); ok {
		t.Errorf("NULL has the answer %q", got)
	}
	if !m.keep(account, "d", memoMax/2) || m.keep(account, "e", memoMax/2) {
		t.Error("an answer of half of the bound fits once")
	}
	m.reset(account)

	bytes := []*types.T{types.Bytes, types.Bytes}
	m.find([]types.Datum{types.NewBytes("a"), types.NewBytes("\x00\x00\x00\x00b")}, bytes)
	m.keep(account, "f", 0)
	if got, ok := m.find([]types.Datum{types.NewBytes("a\x00\x00\x00\x00"), types.NewBytes("b")}, bytes); ok {
		t.Errorf("bytes that are the same one after the other share the answer %q", got)
	}

	var never memo[string]
	for i := range 2 * memoProbation {
		never.find([]types.Datum{types.NewInt(int64(i))}, []*types.T{types.Int8})
		if kept := never.keep(account, "x", 0); kept != (i < memoProbation) {
			t.Fatalf("value %d: kept is %v", i, kept)
		}
	}
}
