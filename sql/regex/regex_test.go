package regex

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

type checkFunc func() error

func (f checkFunc) Check() error { return f() }

// TestExplosions: patterns on which backtracking takes years end with an answer, or with an error after a bounded number of steps.
func TestExplosions(t *testing.T) {
	long := strings.Repeat("a", 5000)
	for _, c := range []struct {
		pattern, text string
		match         bool
		fails         bool
	}{
		{"(a*)*b", long, false, false}, {"(a|aa)+$", long, true, false}, {"(a|a?)+b", long, false, false}, {"(a*)*$", long, true, false}, {"((a*)*)*b", long, false, false},
		{"(x+x+)+y", strings.Repeat("x", 5000), false, false}, {"(.*)(.*)(.*)(.*)b", long, false, false}, {"^(([a-z])+.)+[A-Z]([a-z])+$", long, false, false},
		{"(?=(a*)*b)a", long[:500], false, false}, {"(a?){200}a{200}", long[:200], true, false}, {`^(a*)(a*)(a*)(a*)x\1\2\3\4y$`, long[:300] + "x" + long[:299] + "y", false, true}, {`(a+)+\1b`, long[:300], false, false},
		{strings.Repeat("(a?)", 300) + strings.Repeat("a", 300), long[:300], true, false}, {strings.Repeat("(a|b)", 500), long[:500], true, false},
	} {
		re, err := Compile(c.pattern, Options{})
		if err != nil {
			t.Errorf("%.40s: %v", c.pattern, err)
			continue
		}
		m, err := re.Find(c.text, 0, nil, nil)
		if !c.fails {
			if ok, err := re.Match(c.text, nil); ok != (m != nil) || err != nil {
				t.Errorf("%.40s: Match says %v, %v and Find %v", c.pattern, ok, err, m != nil)
			}
		}
		if (m != nil) != c.match || c.fails != errors.Is(err, TooComplex) {
			t.Errorf("%.40s: %v, %v", c.pattern, m != nil, err)
		}
	}
	for _, p := range []string{"((a{200}){200}){200}", "(a{255}){255}b{255}", strings.Repeat("(", 2000), strings.Repeat("(", 1500) + strings.Repeat(")", 1500), strings.Repeat("a", PatternMax+1)} {
		var e Error
		if _, err := Compile(p, Options{}); !errors.As(err, &e) {
			t.Errorf("%.40s: %v", p, err)
		}
	}
}

// TestCancelled: a search ends with the error of its check (regex.RX3).
func TestCancelled(t *testing.T) {
	stop := fmt.Errorf("stop")
	for _, p := range []string{"(a|b)*c", "[bd].*c$", `\yc`, `(a|b)\1c`, "(?=c)."} {
		re, err := Compile(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := re.Find(strings.Repeat("a", 300_000), 0, nil, checkFunc(func() error { return stop })); !errors.Is(err, stop) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestMemory: the sets of states that a search keeps are bounded (regex.RX2), and answers do not depend on what a search has kept before.
func TestMemory(t *testing.T) {
	re, err := Compile("(a|b)*a(a|b){11}c|x$|^y", Options{}) // 2^12 sets of states
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var b strings.Builder
		for range 2000 {
			b.WriteByte("ab"[r.IntN(2)])
		}
		text := b.String() + "c"
		fresh, err := Compile("(a|b)*a(a|b){11}c|x$|^y", Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := re.Match(text, nil)
		want, _ := fresh.Match(text, nil)
		if got != want || got != (text[2000-12] == 'a') {
			t.Fatalf("%v and %v", got, want)
		}
		m := re.machine(text, nil)
		n := 0
		for i := range m.sets {
			if c := m.sets[i].cache; c != nil {
				n += len(c.sets)
			}
		}
		if n > cacheMax {
			t.Fatalf("%d sets are kept", n)
		}
		re.put(m)
	}
}

// FuzzCompile: no pattern and no text make the package panic, and a match has its places in order, at the boundaries of characters.
func FuzzCompile(f *testing.F) {
	f.Add("(a|b)*c", "abc", "")
	f.Add(`(?<=\1)[[:alpha:]]{1,2}?`, "é", "i")
	f.Add(`\y(a)\1|[^]]`, "aa]", "x")
	f.Fuzz(func(t *testing.T, pattern, text, flags string) {
		var o Options
		for _, c := range flags {
			o.Add(c)
		}
		if len(text) > 200 || len(pattern) > 200 {
			return
		}
		re, err := Compile(pattern, o)
		if err != nil {
			var e Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return
		}
		steps := 0
		m, err := re.Find(text, 0, nil, checkFunc(func() error {
			if steps++; steps > 100 {
				return TooComplex
			}
			return nil
		}))
		if err != nil || m == nil {
			return
		}
		for i := 0; i < len(m); i += 2 {
			if m[i] >= 0 && (m[i] > m[i+1] || m[i+1] > len(text)) || (m[i] < 0) != (m[i+1] < 0) {
				t.Fatalf("%q of %q: %v", pattern, text, m)
			}
		}
	})
}

// TestShared: searches of one Regexp at the same time do not disturb each other (regex.RX1); the race detector looks on.
func TestShared(t *testing.T) {
	re, err := Compile(`(a|b)+?(\d*)\1|\yc(?=d)`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for n := range 200 {
				text := strings.Repeat("x", n%7+i) + "ab12bcd"
				if m, err := re.Find(text, 0, nil, nil); err != nil || m == nil || text[m[0]:m[1]] != "ab12b" {
					t.Fatalf("%q: %v, %v", text, m, err)
				}
			}
		})
	}
}
