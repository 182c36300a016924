package session

import (
	"slices"
	"testing"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/memory"
)

// TestDeferrals: SET CONSTRAINTS of a name counts before ALL, and ALL before the definition; ALL forgets what was said of names. A savepoint's
// state is not changed by what is said and queued after it.
func TestDeferrals(t *testing.T) {
	account := memory.NewSession(nil)
	d := &deferrals{memory: func() *memory.Account { return account }}
	a, b := exec.Constraint{Table: 1, Foreign: 1}, exec.Constraint{Table: 2, Index: 1}
	expect := func(when string, c exec.Constraint, initially, want bool) {
		t.Helper()
		if got := d.Deferred(c, initially); got != want {
			t.Errorf("%s: deferred is %t", when, got)
		}
	}
	expect("as defined", a, true, true)
	d.setAll(false)
	expect("ALL IMMEDIATE", a, true, false)
	d.set(map[exec.Constraint]bool{a: true}, true)
	expect("by name", a, false, true)
	expect("another name", b, true, false)
	m := d.mark()
	for _, c := range []exec.Constraint{a, b, a} {
		if err := d.Defer(exec.DeferredCheck{Constraint: c}); err != nil {
			t.Fatal(err)
		}
	}
	d.set(map[exec.Constraint]bool{b: true}, true)
	now, later := d.due(func(c exec.Constraint) bool { return c == a })
	if len(now) != 2 || len(later) != 1 || later[0].Constraint != b {
		t.Errorf("%d checks are due, and %d later", len(now), len(later))
	}
	if now, later := d.due(nil); len(now) != 3 || len(later) != 0 {
		t.Errorf("%d of all checks are due, and %d later", len(now), len(later))
	}
	truncate := &bind.Truncate{Tables: []*catalog.Table{{ID: 2, Name: "t"}}}
	if err := d.mayChange(truncate); err == nil {
		t.Error("a table for which a check waits may be truncated")
	}
	d.deferralState = m
	expect("back at the savepoint", b, true, false)
	if err := d.mayChange(truncate); err != nil || len(d.queue) != 0 {
		t.Errorf("%d checks wait after going back: %v", len(d.queue), err)
	}
	d.setAll(true)
	d.setAll(false)
	expect("ALL after a name", a, true, false)
}

// TestHeldMemory: a statement's accounts end with it and are used again, the transaction's outlives statements, and all are the session's.
func TestHeldMemory(t *testing.T) {
	const mib = 1 << 20
	h := held{memory: memory.NewSession(nil), perStatement: 8 * mib}
	first, second := h.account(), h.account()
	if first == second {
		t.Fatal("one account for two uses")
	}
	if err := first.Grow(4 * mib); err != nil {
		t.Fatal(err)
	}
	if err := second.Grow(16 * mib); err == nil {
		t.Error("an account has more than a statement may")
	}
	if err := h.txnMemory().Grow(16 * mib); err != nil {
		t.Fatal(err)
	}
	if got := h.memory.Used(); got < 19*mib {
		t.Errorf("the session holds %d bytes", got)
	}
	h.endStatement()
	if got := h.memory.Used(); got < 15*mib || got > 18*mib {
		t.Errorf("the session holds %d bytes after the statement", got)
	}
	if h.account() != first {
		t.Error("the next statement has a new account")
	}
	h.endTxn()
	if got := h.memory.Used(); got != 0 {
		t.Errorf("the session holds %d bytes after the transaction", got)
	}
}

// TestRights: a part of a query that is read by the rights of a view's owner needs those, and the rest the role's own.
func TestRights(t *testing.T) {
	ada := &catalog.User{Name: "ada", ID: 11}
	owner := &catalog.User{Name: "owner", ID: 12}
	table, view := &catalog.Table{ID: 200, Name: "t"}, &catalog.Table{ID: 201, Name: "v"}
	access := catalog.NewAccess(catalog.NewRoles([]*catalog.User{ada, owner}), func(id catalog.ID) (catalog.Object, bool) {
		o := catalog.Object{Class: catalog.ClassTable, Kind: "table", Name: "t", Owner: "owner"}
		o.Grants = []catalog.Grant{{Role: "owner", Privileges: catalog.Select | catalog.Update}}
		if id == view.ID {
			o.Grants = append(o.Grants, catalog.Grant{Role: "ada", Privileges: catalog.Select})
		}
		return o, id == table.ID || id == view.ID
	})
	r := rights{access, "ada"}
	through := []bind.Access{{Table: view, Privileges: catalog.Select}, {Table: table, As: "owner", Privileges: catalog.Select}}
	if err := r.query(&bind.Query{Access: through}); err != nil {
		t.Errorf("through the view: %v", err)
	}
	direct := append(slices.Clone(through), bind.Access{Table: table, Privileges: catalog.Select})
	if r.query(&bind.Query{Access: direct}) == nil {
		t.Error("the table itself was read without the right")
	}
	if err := r.oneOf(view.ID, catalog.Update, catalog.Select); err != nil {
		t.Errorf("one of two rights: %v", err)
	}
	if r.oneOf(view.ID, catalog.Update, catalog.Insert) == nil {
		t.Error("none of two rights is enough")
	}
	if r.maintains(table) || !(rights{access, "owner"}).maintains(table) {
		t.Error("the owner maintains a table, and nobody else")
	}
	lock := &bind.LockTable{Tables: []*catalog.Table{view}, Mode: "ACCESS SHARE"}
	if err := r.command(lock); err != nil {
		t.Errorf("%s: %v", lock.Mode, err)
	}
	if lock.Mode = "EXCLUSIVE"; r.command(lock) == nil {
		t.Error("locked without a right to change")
	}
}
