package setting

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestTable: every setting has a name of its own, a default that it may have, and texts that read back.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	All(func(s *Setting) {
		if s.Name == "" || s.About == "" || names[s.Name] {
			t.Errorf("%q: no name, no description, or the name of another", s.Name)
		}
		names[s.Name] = true
		for _, v := range []int64{s.Default, s.Min, s.Max} {
			if s.Kind == Enum || s.Kind == Bool {
				v = s.Default
			}
			if got, err := s.Parse(s.Format(v)); err != nil || got != v {
				t.Errorf("%s: %q reads back as %d, %v; want %d", s.Name, s.Format(v), got, err, v)
			}
		}
	})
}

func TestParse(t *testing.T) {
	kinds := map[Kind]*Setting{
		Int:      {Name: "i", Kind: Int, Min: -5, Max: 100},
		Bool:     {Name: "b", Kind: Bool},
		Duration: {Name: "d", Kind: Duration, Min: int64(time.Second), Max: int64(48 * time.Hour)},
		Bytes:    {Name: "z", Kind: Bytes, Max: 1 << 40},
		Fraction: {Name: "f", Kind: Fraction, Min: Float(0.5), Max: Float(2)},
		Enum:     {Name: "e", Kind: Enum, Values: []string{"low", "high"}},
	}
	for _, c := range []struct {
		kind Kind
		text string
		want string // empty: refused
	}{
		{Int, "7", "7"}, {Int, " -5 ", "-5"}, {Int, "101", ""}, {Int, "1.5", ""}, {Int, "many", ""}, {Int, "", ""},
		{Int, "99999999999999999999", ""},
		{Bool, "ON", "true"}, {Bool, "0", "false"}, {Bool, "maybe", ""},
		{Duration, "300s", "5m"}, {Duration, "5 min", "5m"}, {Duration, "1h30m", "1h30m"}, {Duration, "1 day 2 hours", "26h"},
		{Duration, "1.5s", "1.5s"}, {Duration, "300", ""}, {Duration, "5x", ""}, {Duration, "0", ""}, {Duration, "-5m", ""},
		{Duration, "49h", ""}, {Duration, "", ""}, {Duration, "m", ""}, {Duration, "99999999999999999h", ""},
		{Bytes, "1024", "1KiB"}, {Bytes, "64MiB", "64MiB"}, {Bytes, "1 MB", "1000000B"}, {Bytes, "0", "0B"}, {Bytes, "1 mile", ""}, {Bytes, "2TiB", ""},
		{Fraction, "0.75", "0.75"}, {Fraction, "nan", ""}, {Fraction, "3", ""}, {Fraction, "x", ""},
		{Enum, "HIGH", "high"}, {Enum, "middle", ""},
	} {
		s := kinds[c.kind]
		v, err := s.Parse(c.text)
		var refused *ValueError
		switch {
		case c.want == "" && (!errors.As(err, &refused) || refused.Hint == ""):
			t.Errorf("%s %q: %d, %v; want a refusal with a hint", c.kind, c.text, v, err)
		case c.want != "" && (err != nil || s.Format(v) != c.want):
			t.Errorf("%s %q: %q, %v; want %q", c.kind, c.text, s.Format(v), err, c.want)
		}
	}
}

func TestValues(t *testing.T) {
	var none *Values
	if none.Duration(TimeUntilStoreDead) != 5*time.Minute || !none.Known() {
		t.Error("without values, the defaults are not known")
	}
	v := New(nil)
	var seen []time.Duration
	v.OnChange(func() { seen = append(seen, v.Duration(TimeUntilStoreDead)) })
	if v.Known() {
		t.Error("known before anything was read")
	}
	if wrong := v.Set(map[string]string{"server.time_until_store_dead": "1h", "replicas.voters": "4", "of.a.later.version": "x"}); len(wrong) != 1 {
		t.Errorf("wrong: %v; want that of replicas.voters", wrong)
	}
	if got := v.Int(Voters); got != 3 || !v.Known() {
		t.Errorf("a wrong value: %d voters; want the default", got)
	}
	v.Set(nil)
	if want := []time.Duration{5 * time.Minute, time.Hour, 5 * time.Minute}; !slices.Equal(seen, want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
	if got := New(map[ID]int64{GCTTL: 7}).Int(GCTTL); got != 7 {
		t.Errorf("a default of this node's own: %d", got)
	}
	if _, err := Check("a.b", "c"); !errors.As(err, new(*UnknownError)) {
		t.Errorf("an unknown setting: %v", err)
	}
	if got, err := Check("SERVER.time_until_store_dead", "3600s"); got != "1h" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a duration was read as a number")
			}
		}()
		v.Int(TimeUntilStoreDead)
	}()
}
