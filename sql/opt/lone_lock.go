package opt

// SELECT FOR UPDATE keeps its locks until the transaction ends, and asks before that whether it has had them all the time (coordinator.CO10): the client has counted on them, or a lock on what another one guards. A
// statement that locks one row, writes nothing and is a transaction by itself returns this row as it is when it is locked, and the client hears of it when the lock is no longer there. So it does not ask.

// LocksOne reports whether the plan takes one lock at most of those that a statement asks for, and writes nothing.
func (p *Plan) LocksOne() bool {
	locks := func(operators int) bool {
		x := explainer{meta: p.Meta, names: make(map[string]ColumnID)}
		return x.held(p.Root) == operators && !x.changes(p.Root)
	}
	n := p.Root
	for {
		switch m := n.(type) {
		case *ProjectNode:
			n = m.Input
			continue
		case *FilterNode:
			n = m.Input
			continue
		case *LimitNode:
			n = m.Input
			continue
		case *IndexJoin:
			return m.Locking.Held && oneRow(m.Input) && locks(1)
		case *LocalitySearch:
			return m.Local.Locking.Held && oneRow(m) && locks(2)
		case *IndexScan:
			return m.Locking.Held && oneRow(m) && locks(1)
		}
		return false
	}
}

// oneRow reports whether a scan looks for one key.
func oneRow(n Node) bool {
	switch n := n.(type) {
	case *IndexScan:
		alternatives := max(n.Alternatives, 1) // of which one exists
		if !n.Single || len(n.Spans) != alternatives {
			return false
		}
		for i := range n.Spans {
			for _, m := range n.Spans[i].Modes {
				if m != SpanValue {
					return false
				}
			}
		}
		return true
	case *LocalitySearch:
		return n.Unique && oneRow(n.Local) && oneRow(n.Remote)
	}
	return false
}

// held counts the operators that take locks which the statement asks for.
func (x *explainer) held(n Node) (count int) {
	switch m := n.(type) {
	case *IndexScan:
		if m.Locking.Held {
			count++
		}
	case *IndexJoin:
		if m.Locking.Held {
			count++
		}
	case *LookupJoin:
		if m.Locking.Held {
			count++
		}
	case *LockNode:
		count += len(m.Tables)
	}
	_, _, inputs := x.parts(n)
	for _, in := range inputs {
		count += x.held(in.node)
	}
	return count
}
