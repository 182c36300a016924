package memory

import (
	"math"
	"sync/atomic"

	"meridian/sql/sqlstate"
)

const (
	// Free is the memory that each statement and each session may hold without reserving it. Chosen by us: the statements of pgbench
	// and TPC-C stay below it.
	Free = 32 << 10
	// piece is the least amount of a reservation.
	piece = 64 << 10
	// DefaultLimit bounds an account that has no session above it, as in tests of single packages.
	DefaultLimit = 256 << 20
)

// Node is the memory that the sessions of a process share. A nil node has no limit.
type Node struct {
	limit int64
	used  atomic.Int64
	// refused counts the requests that were refused, for the metrics.
	refused atomic.Int64
	most    atomic.Int64
}

// NewNode makes a node's budget of limit bytes; zero is no limit.
func NewNode(limit int64) *Node {
	if limit <= 0 {
		limit = math.MaxInt64 / 4
	}
	return &Node{limit: limit}
}

// Limit, Used, Most and Refused are for the metrics: the limit, the memory that is reserved now, the most that ever was, and the number of
// requests that were refused.
func (n *Node) Limit() int64   { return n.limit }
func (n *Node) Used() int64    { return n.used.Load() }
func (n *Node) Most() int64    { return n.most.Load() }
func (n *Node) Refused() int64 { return n.refused.Load() }

// take reserves b bytes for a session; holds is what the session would then hold (memory.ME1, memory.ME2).
func (n *Node) take(b, holds int64) bool {
	for {
		used := n.used.Load()
		if b > n.limit-used || holds > n.limit-used-b {
			return false
		}
		if !n.used.CompareAndSwap(used, used+b) {
			continue
		}
		for used += b; ; {
			if m := n.most.Load(); used <= m || n.most.CompareAndSwap(m, used) {
				return true
			}
		}
	}
}

// Account counts the memory of a session or a statement. One goroutine uses it at a time. A nil account has no limit; the zero
// value is the account of a single statement, with DefaultLimit.
type Account struct {
	node  *Node    // of a session's account
	up    *Account // of a statement's account
	limit int64    // zero: DefaultLimit
	used  int64
	// have is the memory that may be used without another reservation: what was reserved above, and the free part.
	have int64
	free int64
	most int64
}

// NewSession makes a session's account below the node's, which may be nil.
func NewSession(n *Node) *Account {
	return &Account{node: n, limit: math.MaxInt64 / 4, have: Free, free: Free}
}

// NewStatement makes the account of one statement of a session; with limit zero only the session's limit applies.
func (a *Account) NewStatement(limit int64) *Account {
	s := &Account{}
	s.Begin(a, limit)
	return s
}

// Begin makes s the account of a new statement of a session, for a caller that uses the same account again.
func (s *Account) Begin(session *Account, limit int64) {
	*s = Account{up: session, limit: limit, have: Free, free: Free}
	if limit <= 0 {
		s.limit = math.MaxInt64 / 4
	}
}

// SetLimit changes the limit from now on; with zero only the session's limit applies.
func (s *Account) SetLimit(limit int64) {
	if s.limit = limit; limit <= 0 {
		s.limit = math.MaxInt64 / 4
	}
}

// Limited makes the account of a single statement with a limit.
func Limited(limit int64) *Account { return &Account{limit: limit} }

// Grow adds b bytes to the account, or fails with 53200 and adds nothing. Negative bytes are released.
func (a *Account) Grow(b int64) error {
	if a == nil {
		return nil
	}
	if a.used += b; a.used <= a.have {
		return nil
	}
	return a.reserve(b)
}

func (a *Account) reserve(b int64) error {
	if b < 0 {
		return nil
	}
	err := a.ask(b)
	if err != nil {
		if n := a.root(); n != nil {
			n.refused.Add(1)
		}
	}
	return err
}

// ask reserves the used memory that exceeds the reservation; b is the last request, taken back if it fails.
func (a *Account) ask(b int64) error {
	limit := a.limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if a.used > limit || a.used < 0 {
		a.used -= b
		return refusal(limit, a.used, b)
	}
	// A larger account reserves larger pieces.
	want := a.used - a.have
	size := max(want, min(max(piece, a.have/8), 16<<20, limit-a.have))
	err := a.above(size)
	if err != nil && size > want {
		size = want
		err = a.above(size)
	}
	if err != nil {
		a.used -= b
		return err
	}
	a.have += size
	a.most = max(a.most, a.have)
	return nil
}

// above reserves from the account above, or from the node.
func (a *Account) above(b int64) error {
	if up := a.up; up != nil {
		if up.used += b; up.used <= up.have {
			return nil
		}
		return up.ask(b)
	}
	if a.node != nil && !a.node.take(b, a.have+b) {
		return refusal(a.node.limit, a.have, b)
	}
	return nil
}

func (a *Account) root() *Node {
	for a.up != nil {
		a = a.up
	}
	return a.node
}

// refusal is PostgreSQL's error, with a hint for the operator.
func refusal(limit, holds, b int64) error {
	e := sqlstate.New(sqlstate.OutOfMemory, "out of memory").
		WithDetail("Failed on request of size %d: %d bytes are held already, and the limit is %d bytes.", b, holds, limit)
	e.Hint = "Reduce the memory of the statement, or raise --max-sql-memory."
	return e
}

// Shrink releases b bytes.
func (a *Account) Shrink(b int64) {
	if a == nil || b == 0 {
		return
	}
	a.used -= b
	// A part is kept, so that a statement that grows and shrinks in turn seldom reserves.
	if spare := a.have - a.used; spare > 4*piece && spare > a.used/4 {
		a.giveBack(min(spare-2*piece, a.have-a.free))
	}
}

func (a *Account) giveBack(b int64) {
	if b <= 0 {
		return
	}
	a.have -= b
	switch {
	case a.up != nil:
		a.up.Shrink(b)
	case a.node != nil:
		a.node.used.Add(-b)
	}
}

// Used is the memory in use.
func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	return a.used
}

// Most is the most that was ever reserved, for EXPLAIN ANALYZE and tests.
func (a *Account) Most() int64 {
	if a == nil {
		return 0
	}
	return a.most
}

// Close releases all memory of the account (memory.ME3), which may be used again.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.used = 0
	a.giveBack(a.have - a.free)
}
