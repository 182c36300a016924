package bind

import (
	"slices"

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

// locksRows reports whether a query, or one in its FROM or WITH clauses, has a locking clause. A WITH query that locks rows is computed as it is
// written, so that what the main query makes of its rows does not change which of them are locked.
func locksRows(n tree.Statement) bool {
	switch n := n.(type) {
	case *tree.Select:
		if len(n.Locking) > 0 || n.Select != nil && locksRows(n.Select) {
			return true
		}
		return n.With != nil && slices.ContainsFunc(n.With.CTEList, func(c *tree.CTE) bool { return locksRows(c.Stmt) })
	case *tree.ParenSelect:
		return locksRows(n.Select)
	case *tree.UnionClause:
		return locksRows(n.Left) || locksRows(n.Right)
	case *tree.SelectClause:
		return slices.ContainsFunc(n.From.Tables, locksIn)
	}
	return false
}

// locksIn reports whether an item of a FROM clause has a query with a locking clause.
func locksIn(e tree.TableExpr) bool {
	switch e := e.(type) {
	case *tree.AliasedTableExpr:
		return locksIn(e.Expr)
	case *tree.ParenTableExpr:
		return locksIn(e.Expr)
	case *tree.JoinTableExpr:
		return locksIn(e.Left) || locksIn(e.Right)
	case *tree.Subquery:
		return locksRows(e.Select)
	}
	return false
}

// lockAbove puts the locks of a query in parentheses below its LIMIT.
func lockAbove(rel opt.Rel) opt.Rel {
	switch r := rel.(type) {
	case *opt.Limit:
		r.Input = lockAbove(r.Input)
		return r
	case *opt.With:
		r.Main = lockAbove(r.Main)
		return r
	case *opt.Lock:
		return r
	}
	return &opt.Lock{Input: rel}
}

// innerLock says of the locks of a query that it is in FROM.
func innerLock(rel opt.Rel) {
	switch r := rel.(type) {
	case *opt.Limit:
		innerLock(r.Input)
	case *opt.With:
		innerLock(r.Main)
	case *opt.Lock:
		r.Inner = true
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
