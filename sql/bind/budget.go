package bind

import (
	"meridian/sql/sqlstate"
)

func (b *builder) enter() {
	if b.depth++; b.depth > maxDepth {
		raise(sqlstate.TooDeep())
	}
	b.charge(nodeBytes)
}

func (b *builder) leave() { b.depth-- }

const (
	// nodeBytes is what a bound expression occupies, with its share of the lists that it is in, and columnBytes a column of a
	// relation in FROM: estimates of ours.
	nodeBytes   = 192
	columnBytes = 256
	// chargeSteps and chargeBytes are how much is bound before Room is asked.
	chargeSteps = 256
	chargeBytes = 64 << 10
)

// charge counts memory of the bound statement. A short text can make a large one: a view of views reads a relation a million
// times. So binding asks Room now and then, which also tells whether the statement was cancelled.
func (b *builder) charge(bytes int64) {
	b.owed += bytes
	if b.steps++; b.steps < chargeSteps && b.owed < chargeBytes {
		return
	}
	if b.Room != nil {
		b.check(b.Room(b.owed))
	}
	b.owed, b.steps = 0, 0
}

// maxDepth bounds the nesting of expressions and queries.
const maxDepth = 2500
