package opt

import "meridian/sql/types"

// hashable says that equal values of two types have equal hash keys.
func hashable(a, b types.Kind, same bool) bool {
	switch a {
	case types.KindArray, types.KindTuple, types.KindUnknown:
		return false
	}
	return same && (a == types.KindBPChar) == (b == types.KindBPChar)
}

func (o *optimizer) rewrite(g *group, needed colSet) *group { return g }

func (o *optimizer) explore(g *group) {}
