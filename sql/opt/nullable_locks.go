package opt

import (
	"meridian/kv"
	"meridian/sql/sqlstate"
)

// A locking clause can't lock a row that an outer join may have filled with NULLs. As in PostgreSQL, an outer join that becomes an
// inner one, because a condition rejects such rows, does not count, so the statement is refused here and not in package bind. Only
// joins as written count: those that a rule makes of a subquery leave the subquery's rows and their locks as they were.

// noteNullableLocks remembers the scans below an outer join's nullable sides whose rows a clause locks.
func (o *optimizer) noteNullableLocks(j *Join, left, right *group) {
	if j.Kind == RightJoin || j.Kind == FullJoin {
		o.noteLocks(left)
	}
	if j.Kind == LeftJoin || j.Kind == FullJoin {
		o.noteLocks(right)
	}
}

func (o *optimizer) noteLocks(g *group) {
	r := g.expr()
	if s, ok := r.(*Scan); ok {
		if s.Locking.Held || s.Above.Held {
			o.nullableLocks = true
			for _, id := range s.Cols {
				if id != 0 {
					o.lockedNullable.add(id)
				}
			}
		}
		return
	}
	for _, in := range inputs(r) {
		if in != nil {
			o.noteLocks(in)
		}
	}
}

// refuseNullableLocks refuses the statement if such a scan is still on a nullable side.
func (o *optimizer) refuseNullableLocks(g *group, nullable bool) {
	if !o.nullableLocks || o.env.Naive {
		return
	}
	r := g.expr()
	switch r := r.(type) {
	case *Scan:
		asked := r.Locking
		if r.Above.Held {
			asked = r.Above
		}
		if !nullable || !asked.Held {
			return
		}
		for _, id := range r.Cols {
			if id != 0 && o.lockedNullable.has(id) {
				panic(bailout{sqlstate.New(sqlstate.FeatureNotSupported, "%s cannot be applied to the nullable side of an outer join", lockClause(asked.Strength))})
			}
		}
		return
	case *Join:
		in := inputs(r)
		o.refuseNullableLocks(in[0], nullable || r.Kind == RightJoin || r.Kind == FullJoin)
		o.refuseNullableLocks(in[1], nullable || r.Kind == LeftJoin || r.Kind == FullJoin)
		return
	}
	for _, in := range inputs(r) {
		if in != nil {
			o.refuseNullableLocks(in, nullable)
		}
	}
}

// lockClause is the clause that asks for a lock.
func lockClause(s kv.LockStrength) string {
	switch s {
	case kv.KeyShared:
		return "FOR KEY SHARE"
	case kv.Shared:
		return "FOR SHARE"
	case kv.NoKeyExclusive:
		return "FOR NO KEY UPDATE"
	}
	return "FOR UPDATE"
}
