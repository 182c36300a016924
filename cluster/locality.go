package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// Tier is one level of a locality, such as region=europe-west1.
type Tier struct{ Key, Value string }

// Locality says where a node is, from the widest tier to the narrowest.
type Locality []Tier

// ParseLocality reads "region=R,zone=Z". Keys must differ; the order is kept.
func ParseLocality(s string) (Locality, error) {
	if s == "" {
		return nil, nil
	}
	var l Locality
	for part := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || k == "" || v == "" {
			return nil, fmt.Errorf("locality %q: %q is not key=value", s, part)
		}
		if _, dup := l.Find(k); dup {
			return nil, fmt.Errorf("locality %q: %q is given twice", s, k)
		}
		l = append(l, Tier{k, v})
	}
	return l, nil
}

// String is what ParseLocality reads.
func (l Locality) String() string {
	var b strings.Builder
	for i, t := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(t.Key)
		b.WriteByte('=')
		b.WriteString(t.Value)
	}
	return b.String()
}

// Find returns the value of a tier.
func (l Locality) Find(key string) (string, bool) {
	for _, t := range l {
		if t.Key == key {
			return t.Value, true
		}
	}
	return "", false
}

// Region is the value of the tier "region", or empty.
func (l Locality) Region() string { v, _ := l.Find("region"); return v }

// Zone is the value of the tier "zone", or empty.
func (l Locality) Zone() string { v, _ := l.Find("zone"); return v }

// Diversity is how different two places are: 1 if they differ in the first tier, 0 if in none. A tier that only one
// of them has counts as different.
func (l Locality) Diversity(o Locality) float64 {
	n := max(len(l), len(o))
	for i := range n {
		if i >= len(l) || i >= len(o) || l[i] != o[i] {
			return float64(n-i) / float64(n)
		}
	}
	return 0
}

// ParseAttributes reads attributes of a node, as in "ssd:large": words without colons, commas, spaces, equals signs or a sign before them, so that each
// can be a constraint. The order is kept; a word that is given twice counts once.
func ParseAttributes(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	var out []string
	for a := range strings.SplitSeq(s, ":") {
		if a == "" || strings.ContainsAny(a, ",= \t{}[]\"'") || a[0] == '+' || a[0] == '-' || len(a) > maxText {
			return nil, fmt.Errorf("attributes %q: %q is not a word", s, a)
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}
