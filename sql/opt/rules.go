package opt

import (
	"fmt"
	"strings"
)

// Rule is a rewriting, or an alternative, that makes plans better and can be done without. Each has a name, by which a session switches it off
// (disabled_optimizer_rules): to find out which one a slow or a wrong plan comes from.
type Rule uint8

// The rules, in the order of doc.go.
const (
	FoldConstants Rule = iota
	PushFilters
	PushJoinConditions
	MergeProjections
	RemoveDistinct
	InferConstants
	JoinKeys
	SubqueriesToJoins
	HoistScalars
	Unnest
	UnnestAggregates
	AnyArray
	Marks
	ReorderJoins
	SemiToInner
	JoinToApply
	MinMaxByOrder
	SplitDisjunction
	DerivedRegion
	EveryRegion
	rules // how many there are
)

var ruleNames = [rules]string{
	FoldConstants:      "fold_constants",
	PushFilters:        "push_filters",
	PushJoinConditions: "push_join_conditions",
	MergeProjections:   "merge_projections",
	RemoveDistinct:     "remove_distinct",
	InferConstants:     "infer_constants",
	JoinKeys:           "join_keys",
	SubqueriesToJoins:  "subqueries_to_joins",
	HoistScalars:       "hoist_scalars",
	Unnest:             "unnest",
	UnnestAggregates:   "unnest_aggregates",
	AnyArray:           "any_array",
	Marks:              "marks",
	ReorderJoins:       "reorder_joins",
	SemiToInner:        "semi_to_inner",
	JoinToApply:        "join_to_apply",
	MinMaxByOrder:      "min_max_by_order",
	SplitDisjunction:   "split_disjunction",
	DerivedRegion:      "derived_region",
	EveryRegion:        "every_region",
}

func (r Rule) String() string { return ruleNames[r] }

// Rules is a set of rules; the zero value is empty.
type Rules uint64

// AllRules is the set of all of them.
const AllRules Rules = 1<<rules - 1

// Of is a set of some rules.
func Of(rs ...Rule) (s Rules) {
	for _, r := range rs {
		s |= 1 << r
	}
	return s
}

// Has reports whether a rule is in the set.
func (s Rules) Has(r Rule) bool { return s>>r&1 != 0 }

// String lists the rules with commas between, as ParseRules reads them.
func (s Rules) String() string {
	var out []string
	for r := range rules {
		if s.Has(r) {
			out = append(out, r.String())
		}
	}
	return strings.Join(out, ", ")
}

// ParseRules reads a list of rules with commas between, in which "all" is all of them.
func ParseRules(list string) (s Rules, err error) {
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "":
		case "all":
			s = AllRules
		default:
			r := ruleOf(name)
			if r == rules {
				return 0, fmt.Errorf("there is no optimizer rule \"%s\"", name)
			}
			s |= Of(r)
		}
	}
	return s, nil
}

func ruleOf(name string) Rule {
	for r := range rules {
		if ruleNames[r] == name {
			return r
		}
	}
	return rules
}

// may reports whether a rule is to be applied.
func (o *optimizer) may(r Rule) bool { return !o.env.Off.Has(r) }
