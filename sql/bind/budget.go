package bind

import "meridian/sql/sqlstate"

// maxDepth bounds the nesting of expressions and queries.
const maxDepth = 2500

const (
	// nodeBytes is the memory of a bound expression, with its share of the lists that it is in, and columnBytes that of a column of a
	// relation in FROM. Both are estimates.
	nodeBytes   = 192
	columnBytes = 256
	// room is called after chargeSteps charges or chargeBytes bytes.
	chargeSteps = 256
	chargeBytes = 64 << 10
)

// budget bounds one statement while it is bound: the nesting of its expressions and queries, and the memory of the bound tree.
// A short text can make a large tree: a view of views may read a relation a million times. So memory is reserved by room in steps, and room's
// error, because there is no more memory or because the statement was cancelled, ends the binding. Errors are raised.
type budget struct {
	room  func(bytes int64) error // Binder.Room
	depth int
	owed  int64 // bytes that room has not been charged for
	steps int   // charges since the last call of room
}

// enter begins an expression or a query within the one that is bound now; leave ends it.
func (g *budget) enter() {
	if g.depth++; g.depth > maxDepth {
		raise(sqlstate.TooDeep())
	}
	g.charge(nodeBytes)
}

func (g *budget) leave() { g.depth-- }

// charge counts memory of the bound tree.
func (g *budget) charge(bytes int64) {
	g.owed += bytes
	if g.steps++; g.steps < chargeSteps && g.owed < chargeBytes {
		return
	}
	if g.room != nil {
		if err := g.room(g.owed); err != nil {
			raise(err)
		}
	}
	g.owed, g.steps = 0, 0
}
