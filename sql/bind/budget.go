package bind

import "meridian/sql/sqlstate"

// maxDepth bounds the nesting of expressions and queries.
const maxDepth = 2500

const (
	// nodeBytes is what a bound expression occupies, with its share of the lists that it is in, and columnBytes a column of a
	// relation in FROM: estimates of ours.
	nodeBytes   = 192
	columnBytes = 256
	// chargeSteps and chargeBytes are how much is bound before room is called.
	chargeSteps = 256
	chargeBytes = 64 << 10
)

// budget bounds one statement while it is bound: how deeply its expressions and queries nest, and how much memory the bound tree occupies.
// A short text can make a large tree: a view of views reads a relation a million times. So memory is taken from room in steps, and room's
// error, that there is no more or that the statement was cancelled, ends the binding. Errors are raised.
type budget struct {
	room  func(bytes int64) error // Binder.Room
	depth int
	owed  int64 // bytes that room has not been charged for
	steps int   // charges since the last call of room
}

// enter begins an expression or a query inside of the one that is bound now; leave ends it.
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
