package plan

import (
	"context"
	"errors"
	"strings"
	"testing"

	"meridian/sql/memory"
	"meridian/sql/parse"
	"meridian/sql/session/result"
	"meridian/sql/types"
)

func planOf(text string, bytes int64) *Plan {
	return &Plan{Stmt: &parse.Statement{Source: text}, Bytes: bytes}
}

// has lists which of some texts the cache has, without a change of their order.
func (c *Cache) has(texts string) string {
	var out []string
	for _, t := range strings.Fields(texts) {
		if c.byKey[Key{Text: t}] != nil {
			out = append(out, t)
		}
	}
	return strings.Join(out, " ")
}

// TestCache: the plans used last stay, as far as their number and their bytes allow; a new plan takes its predecessor's place.
func TestCache(t *testing.T) {
	put := func(c *Cache, text string, bytes int64) { c.Put(Key{Text: text}, planOf(text, bytes)) }
	c := NewCache(2)
	put(c, "a", 10)
	put(c, "b", 10)
	if c.Get(Key{Text: "a"}) == nil || c.Get(Key{Text: "a", User: "other"}) != nil {
		t.Error("a plan is found by all of its key")
	}
	if put(c, "c", 10); c.has("a b c") != "a c" {
		t.Errorf("three of two: %s", c.has("a b c"))
	}
	again := planOf("c", 20)
	if c.Put(Key{Text: "c"}, again); c.Get(Key{Text: "c"}) != again || c.bytes != 10+1+20+1 {
		t.Errorf("made anew: %d bytes", c.bytes)
	}
	c = NewCache(100)
	for _, text := range strings.Fields("a b c d") {
		put(c, text, cacheBytes/3)
	}
	if c.has("a b c d") != "c d" || c.bytes > cacheBytes {
		t.Errorf("%s, with %d bytes", c.has("a b c d"), c.bytes)
	}
}

// TestRoom: planning ends with the statement, and with its memory; what it took is counted.
func TestRoom(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := NewRoom(ctx, memory.Limited(100))
	if err := r.Take(60); err != nil || r.Bytes != 60 {
		t.Fatal(err, r.Bytes)
	}
	if r.Take(60) == nil {
		t.Error("more than there is")
	}
	why := errors.New("cancelled")
	cancel(why)
	if err := r.Take(1); err != why {
		t.Error(err)
	}
}

func TestSameColumns(t *testing.T) {
	a := []result.Column{{Name: "x", Type: types.Int4}, {Name: "y", Type: types.Text}}
	for _, v := range []struct {
		b    []result.Column
		want bool
	}{
		{[]result.Column{{Name: "x", Type: types.Int4}, {Name: "y", Type: types.Text, Table: 7}}, true},
		{a[:1], false},
		{[]result.Column{a[1], a[0]}, false},
		{[]result.Column{{Name: "x", Type: types.Int8}, a[1]}, false},
	} {
		if SameColumns(a, v.b) != v.want {
			t.Errorf("%v", v.b)
		}
	}
	if TypeKey([]*types.T{types.Int4, nil}) == TypeKey([]*types.T{nil, types.Int4}) || TypeKey(nil) != "" {
		t.Error("TypeKey")
	}
}
