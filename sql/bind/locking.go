package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/sqlstate"
)

// lockList has the entries of a query's FROM clause, whose rows a locking clause locks.
type lockList struct {
	entries []lockEntry
	// refusal is the reason in errors why the query's rows are not rows of tables; empty if they are.
	refusal string
}

// lockEntry is one entry of a FROM clause: a table, a query, or another item, which has no rows to lock.
type lockEntry struct {
	alias string
	scan  *opt.Scan
	query *lockList
	// kind describes an entry that is neither a table nor a query: a clause that names the entry is an error, other clauses skip it.
	kind string
	// needs has the rights that a lock of the rows needs: to change the table, and the views through which it is read.
	needs []Access
}

// lockable adds an entry to the FROM clause that is bound now.
func (b *builder) lockable(e lockEntry) {
	if b.lockables != nil {
		b.lockables.entries = append(b.lockables.entries, e)
	}
}

// noLocking refuses locking clauses of a query, also if the query is in parentheses.
func (b *builder) noLocking(n *tree.Select, format, what string) {
	for {
		for _, l := range n.Locking {
			b.fail(sqlstate.FeatureNotSupported, nil, format, l.Strength, what)
		}
		p, ok := n.Select.(*tree.ParenSelect)
		if !ok {
			return
		}
		n = p.Select
	}
}

const notAllowed, notApplied = "%s is not allowed with %s", "%s cannot be applied to %s"

// lock applies one FOR UPDATE clause to a query.
func (b *builder) lock(l *tree.LockingItem, list *lockList) {
	k := opt.Locking{Strength: kv.Exclusive, Returned: true, Held: true}
	switch l.Strength {
	case tree.ForKeyShare:
		k.Strength = kv.KeyShared
	case tree.ForShare:
		k.Strength = kv.Shared
	case tree.ForNoKeyUpdate:
		k.Strength = kv.NoKeyExclusive
	}
	switch l.WaitPolicy {
	case tree.LockWaitSkipLocked:
		k.Wait = kv.SkipLocked
	case tree.LockWaitError:
		k.Wait = kv.NoWait
	}
	if !b.locks {
		b.locking = l.Strength.String()
	}
	b.locks = true
	if list == nil {
		return
	}
	b.mayLock(l, list)
	if len(l.Targets) == 0 {
		for i := range list.entries {
			b.lockEntry(l, k, &list.entries[i])
		}
		return
	}
	for i := range l.Targets {
		t := &l.Targets[i]
		name := string(t.ObjectName)
		if t.ExplicitSchema || t.ExplicitCatalog {
			b.fail(sqlstate.SyntaxError, string(t.SchemaName), "%s must specify unqualified relation names", l.Strength)
		}
		found := false
		for j := range list.entries {
			e := &list.entries[j]
			if e.alias != name {
				continue
			}
			found = true
			if e.kind != "" {
				b.fail(sqlstate.FeatureNotSupported, name, notApplied, l.Strength, e.kind)
			}
			b.lockEntry(l, k, e)
		}
		if !found {
			b.fail(sqlstate.UndefinedTable, name, "relation \"%s\" in %s clause not found in FROM clause", name, l.Strength)
		}
	}
}

// mayLock refuses a query whose rows are not those of its tables.
func (b *builder) mayLock(l *tree.LockingItem, list *lockList) {
	if list.refusal != "" {
		b.fail(sqlstate.FeatureNotSupported, nil, notAllowed, l.Strength, list.refusal)
	}
}

func (b *builder) lockEntry(l *tree.LockingItem, k opt.Locking, e *lockEntry) {
	if e.scan != nil && e.scan.Table.Materialized {
		b.fail(sqlstate.WrongObjectType, nil, "cannot lock rows in materialized view \"%s\"", e.scan.Table.Name)
	}
	for _, a := range e.needs {
		b.needAs(a.Table, a.As, catalog.Update)
	}
	if e.query != nil {
		b.mayLock(l, e.query)
		for i := range e.query.entries {
			b.lockEntry(l, k, &e.query.entries[i])
		}
	}
	if s := e.scan; s != nil {
		// Of several clauses the strongest lock counts, and, independently of it, the firmest wait: NOWAIT, then SKIP LOCKED, then waiting.
		if s.Locking.Held {
			k.Strength, k.Wait = max(k.Strength, s.Locking.Strength), firmerWait(k.Wait, s.Locking.Wait)
		} else {
			k.Strength = max(k.Strength, s.Locking.Strength)
		}
		s.Locking = k
	}
}

// firmerWait is the policy of two clauses together.
func firmerWait(a, b kv.WaitPolicy) kv.WaitPolicy {
	switch {
	case a == kv.NoWait || b == kv.NoWait:
		return kv.NoWait
	case a == kv.SkipLocked || b == kv.SkipLocked:
		return kv.SkipLocked
	}
	return kv.Block
}
