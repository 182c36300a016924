package region

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"meridian/placement"
	"meridian/sql/catalog"
)

// TextError says what is wrong with the text of constraints or preferences.
type TextError struct{ Text, Why string }

func (e *TextError) Error() string { return fmt.Sprintf("could not parse %q: %s", e.Text, e.Why) }

// ParseConstraints reads constraints: a list that all replicas satisfy, as [+region=a, -zone=b], or lists with a number of replicas each, as
// {"+region=a": 1, "+region=b,+ssd": 2}. Both are the forms that the reference reads as YAML.
func ParseConstraints(text string) ([]placement.Conjunction, error) {
	bad := func(why string) ([]placement.Conjunction, error) { return nil, &TextError{text, why} }
	s := strings.TrimSpace(text)
	switch {
	case s == "":
		return []placement.Conjunction{}, nil
	case s[0] == '[' && s[len(s)-1] == ']':
		var c placement.Conjunction
		for _, part := range split(s[1:len(s)-1], ',') {
			k, why := constraint(part)
			if why != "" {
				return bad(why)
			}
			c.Constraints = append(c.Constraints, k)
		}
		if len(c.Constraints) == 0 {
			return []placement.Conjunction{}, nil
		}
		return []placement.Conjunction{c}, nil
	case s[0] == '{' && s[len(s)-1] == '}':
		out := []placement.Conjunction{}
		for _, part := range split(s[1:len(s)-1], ',') {
			at := lastColon(part)
			if at < 0 {
				return bad("a number of replicas is missing after \"" + part + "\"")
			}
			n, err := strconv.Atoi(strings.TrimSpace(part[at+1:]))
			if err != nil || n < 1 {
				return bad("the number of replicas of a constraint is 1 or more")
			}
			c := placement.Conjunction{Replicas: n}
			for _, one := range split(unquote(part[:at]), ',') {
				k, why := constraint(one)
				if why != "" {
					return bad(why)
				}
				if k.Forbidden {
					return bad("a constraint with a number of replicas is a required one: +" + strings.TrimPrefix(k.String(), "-"))
				}
				c.Constraints = append(c.Constraints, k)
			}
			if len(c.Constraints) == 0 {
				return bad("a constraint is missing")
			}
			out = append(out, c)
		}
		return out, nil
	}
	return bad("constraints are a list in brackets, or a map in braces")
}

// ParsePreferences reads lease preferences: lists in the order in which they are tried, as [[+region=a], [+region=b]].
func ParsePreferences(text string) ([]placement.Conjunction, error) {
	bad := func(why string) ([]placement.Conjunction, error) { return nil, &TextError{text, why} }
	s := strings.TrimSpace(text)
	if s == "" {
		return []placement.Conjunction{}, nil
	}
	if s[0] != '[' || s[len(s)-1] != ']' {
		return bad("lease preferences are a list of lists")
	}
	out := []placement.Conjunction{}
	for _, part := range split(s[1:len(s)-1], ',') {
		if len(part) < 2 || part[0] != '[' || part[len(part)-1] != ']' {
			return bad("lease preferences are a list of lists")
		}
		var c placement.Conjunction
		for _, one := range split(part[1:len(part)-1], ',') {
			k, why := constraint(one)
			if why != "" {
				return bad(why)
			}
			c.Constraints = append(c.Constraints, k)
		}
		if len(c.Constraints) == 0 {
			return bad("a lease preference has at least one constraint")
		}
		out = append(out, c)
	}
	return out, nil
}

// split divides a text at a separator that is in no quotes, brackets or braces; parts are trimmed, and an empty text has none.
func split(s string, at byte) (out []string) {
	depth, quote, from := 0, byte(0), 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == at && depth == 0:
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	if last := strings.TrimSpace(s[from:]); last != "" || len(out) > 0 {
		out = append(out, last)
	}
	return out
}

// lastColon is the place of the colon before the number; -1 if there is none.
func lastColon(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case ':':
			return i
		case '"', '\'':
			return -1
		}
	}
	return -1
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// constraint reads +key=value, -key=value or, for an attribute, +value.
func constraint(s string) (k placement.Constraint, why string) {
	s = unquote(s)
	if len(s) < 2 || s[0] != '+' && s[0] != '-' {
		return k, "a constraint begins with + or -, as in +region=us-east1"
	}
	k.Forbidden = s[0] == '-'
	key, value, tier := strings.Cut(s[1:], "=")
	if !tier {
		key, value = "", s[1:]
	}
	if strings.ContainsAny(key+value, "\"'[]{}:,=") || strings.TrimSpace(value) == "" || tier && strings.TrimSpace(key) == "" {
		return k, "\"" + s + "\" is no constraint"
	}
	k.Key, k.Value = strings.TrimSpace(key), strings.TrimSpace(value)
	return k, ""
}

// FormatConstraints prints what ParseConstraints reads.
func FormatConstraints(cs []placement.Conjunction) string {
	if len(cs) == 0 {
		return "[]"
	}
	all := true
	for i := range cs {
		all = all && cs[i].Replicas == 0
	}
	var b strings.Builder
	if all {
		var parts []string
		for i := range cs {
			for _, k := range cs[i].Constraints {
				parts = append(parts, k.String())
			}
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	// In the order of their texts, as a map has them.
	cs = slices.Clone(cs)
	slices.SortStableFunc(cs, func(a, b placement.Conjunction) int { return cmp.Compare(conjunction(a), conjunction(b)) })
	for i, c := range cs {
		if i > 0 {
			b.WriteString(", ")
		}
		text := conjunction(c)
		if len(c.Constraints) > 1 {
			text = "\"" + text + "\""
		}
		b.WriteString(text + ": " + strconv.Itoa(c.Replicas))
	}
	return "{" + b.String() + "}"
}

func conjunction(c placement.Conjunction) string {
	parts := make([]string, len(c.Constraints))
	for i, k := range c.Constraints {
		parts[i] = k.String()
	}
	return strings.Join(parts, ",")
}

// FormatPreferences prints what ParsePreferences reads.
func FormatPreferences(cs []placement.Conjunction) string {
	parts := make([]string, len(cs))
	for i := range cs {
		var one []string
		for _, k := range cs[i].Constraints {
			one = append(one, k.String())
		}
		parts[i] = "[" + strings.Join(one, ", ") + "]"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// SQL is the statement that gives an object, such as TABLE d.public.t, the fields that a configuration has. A witness, which no statement of zones gives, is in
// a comment, so that the statement can be run.
func SQL(object string, c *catalog.ZoneConfig) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, "\t"+name+" = "+value) }
	text := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	if c.RangeMinBytes != nil {
		add("range_min_bytes", strconv.FormatInt(*c.RangeMinBytes, 10))
	}
	if c.RangeMaxBytes != nil {
		add("range_max_bytes", strconv.FormatInt(*c.RangeMaxBytes, 10))
	}
	if c.GCSeconds != nil {
		add("gc.ttlseconds", strconv.Itoa(int(*c.GCSeconds)))
	}
	if c.GlobalReads != nil {
		add("global_reads", strconv.FormatBool(*c.GlobalReads))
	}
	if c.NumReplicas != nil {
		add("num_replicas", strconv.Itoa(*c.NumReplicas))
	}
	if c.NumVoters != nil {
		add("num_voters", strconv.Itoa(*c.NumVoters))
	}
	if c.Constraints != nil {
		add("constraints", text(FormatConstraints(*c.Constraints)))
	}
	if c.VoterConstraints != nil {
		add("voter_constraints", text(FormatConstraints(*c.VoterConstraints)))
	}
	if c.LeasePreferences != nil {
		add("lease_preferences", text(FormatPreferences(*c.LeasePreferences)))
	}
	witness := ""
	if c.Witness != nil {
		witness = "\n\t/* and a witness where " + strings.ReplaceAll(conjunction(*c.Witness), "*/", "* /") + " */"
	}
	return "ALTER " + object + " CONFIGURE ZONE USING\n" + strings.Join(parts, ",\n") + witness
}
