package version

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestText: a version reads back from its text and its number, and both order as the version does.
func TestText(t *testing.T) {
	draw := func(t *rapid.T) Version {
		return Version{rapid.Uint16().Draw(t, "major"), rapid.Uint16().Draw(t, "minor"), rapid.Uint16Max(3).Draw(t, "step")}
	}
	rapid.Check(t, func(t *rapid.T) {
		v, o := draw(t), draw(t)
		if got, err := Parse(v.String()); err != nil || got != v {
			t.Fatalf("%q reads back as %v, %v", v, got, err)
		}
		if From(v.Uint64()) != v || v.Less(o) != (v.Uint64() < o.Uint64()) || v.Less(o) && v.Max(o) != o {
			t.Fatalf("%v as a number is %d, %v is %d", v, v.Uint64(), o, o.Uint64())
		}
	})
	for _, bad := range []string{"1", "1.", "1.2-", "1.2-0", "01.2", "1.2-3-4", "a.b", "1.70000", "-1.2", "1.2 "} {
		if v, err := Parse(bad); !errors.As(err, new(*SyntaxError)) {
			t.Errorf("%q was read as %v, %v", bad, v, err)
		}
	}
}

// TestFeatures: each feature has a name of its own and a version that this build can act by, in order.
func TestFeatures(t *testing.T) {
	names, last := map[string]bool{}, Version{}
	for i, f := range features {
		if Feature(i).String() != f.name || Feature(i).Since() != f.since {
			t.Errorf("feature %d is called %s, of %s", i, Feature(i), Feature(i).Since())
		}
		if f.name == "" || names[f.name] || f.since.IsZero() || f.since.Less(last) || Built().Own.Less(f.since) {
			t.Errorf("%q of %s: no name or another's, no version, one before %s, or one beyond %s", f.name, f.since, last, Built().Own)
		}
		names[f.name], last = true, f.since
	}
	if last != Built().Own {
		t.Errorf("the build has version %s, and its latest feature %s", Built().Own, last)
	}
	if Built().Own.Less(Built().Oldest) {
		t.Errorf("the build works in clusters from %s on, and has %s itself", Built().Oldest, Built().Own)
	}
}

func TestSteps(t *testing.T) {
	own := Built().Own
	if got := Steps(own, own); got != nil {
		t.Errorf("from a version to itself: %v", got)
	}
	beyond := Version{own.Major, own.Minor + 1, 0}
	if got := Steps(own, beyond); !slices.Equal(got, []Version{beyond}) {
		t.Errorf("to a version without features: %v", got)
	}
	all := Steps(Version{}, own)
	if !slices.IsSortedFunc(all, Version.Compare) || len(slices.Compact(slices.Clone(all))) != len(all) || all[len(all)-1] != own {
		t.Errorf("from nothing: %v", all)
	}
}

// TestHandle: the version by which a node acts only grows (version.CV1), never beyond the binary (version.CV2), and decides what is active.
func TestHandle(t *testing.T) {
	b := Binary{Own: Version{0, 3, 0}, Oldest: Version{0, 1, 0}}
	h := NewHandle(b, Version{})
	if h.Active(Base) || !h.Acting().IsZero() {
		t.Error("a node without a cluster acts by a version")
	}
	var heard []string
	h.OnRaise(func(v Version) { heard = append(heard, v.String()) })
	h.Raise(Version{0, 2, 0})
	h.Raise(Version{0, 1, 0})
	h.Raise(Version{0, 2, 0})
	if h.Acting() != (Version{0, 2, 0}) || !h.Active(Base) {
		t.Errorf("acts by %s; base is active: %t", h.Acting(), h.Active(Base))
	}
	if strings.Join(heard, " ") != "0.2" {
		t.Errorf("heard of %q", heard)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a version was raised that the binary does not have")
			}
		}()
		h.Raise(Version{0, 3, 1})
	}()
	var none *Handle
	if none.Acting() != Built().Own || !none.Active(Base) {
		t.Error("without a handle the build's own version holds")
	}
}

// TestCheck: a binary that can't act by the cluster's version, or does not work in so old a cluster, is refused from both
// sides, and each names the node that has to be changed.
func TestCheck(t *testing.T) {
	v := func(text string) Version { v, _ := Parse(text); return v }
	said := func(own, oldest, acting string) Said { return Said{Binary{v(own), v(oldest)}, v(acting)} }
	for _, c := range []struct {
		us, them Said
		want     string // begins the error; empty: none
	}{
		{said("0.1", "0.1", "0.1"), said("0.1", "0.1", "0.1"), ""},
		{said("0.1", "0.1", "0.1"), said("0.2", "0.1", "0.1"), ""},
		{said("0.1", "0.1", "0.1"), said("0.2", "0.1", ""), ""},
		{said("0.2", "0.1", "0.2"), said("0.2", "0.1", "0.1"), ""}, // it has not heard yet
		{said("0.2", "0.1", "0.1-3"), said("0.1", "0.1", "0.1"), "the binary of n3 is too old: it has version 0.1, and the cluster is upgraded to 0.1-3"},
		{said("0.2", "0.1", "0.2"), said("0.1", "0.1", ""), "the binary of n3 is too old"},
		{said("0.1", "0.1", ""), said("0.2", "0.1", "0.2"), "the binary of this node is too old"},
		{said("0.1", "0.1", "0.1"), said("0.3", "0.2", ""), "the binary of n3 is too new: it has version 0.3 and works in clusters of version 0.2 or later, and the cluster acts by 0.1"},
		{said("0.3", "0.2", ""), said("0.1", "0.1", "0.1"), "the binary of this node is too new"},
		{said("0.2", "0.1", "0.2"), Said{}, ""}, // an administrator
		{Said{}, said("0.2", "0.1", "0.2"), ""},
		{said("0.2", "0.1", ""), said("0.4", "0.4", ""), ""}, // neither has a cluster
	} {
		err := Check(c.us, c.them, "n3")
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v meets %v: %v; want %q", c.us, c.them, err, c.want)
		}
	}
	if err := (Binary{v("0.1"), v("0.1")}).Fits("x", v("0.1"), v("0.2")); !errors.As(err, new(*TooOldError)) {
		t.Errorf("a promise beyond the binary: %v", err)
	}
}
