package core

import "math"

// Ballots is a policy: in which kind of ballot a record's options are decided (MDCC §3.3.2). Safety does not depend on it: acceptors follow the ballot that
// a record is in, whichever policy a gateway has in mind, and two gateways may have different ones. So a gateway may learn of a new policy late.
type Ballots uint8

const (
	// FastBallots has a master decide about collisions only; it opens the record to all again at once.
	FastBallots Ballots = iota
	// GammaBallots has the master that has decided about a collision decide about the next options of the record too, Policy.Gamma of them. Then it opens the record.
	GammaBallots
	// LearnedBallots keeps hot records with a master in the region that writes them most, and opens those that cool down.
	LearnedBallots
	// ClassicBallots has a master near the range's leaseholder decide about all options.
	ClassicBallots
)

func (b Ballots) String() string {
	return [...]string{FastBallots: "fast", GammaBallots: "gamma", LearnedBallots: "learned", ClassicBallots: "classic"}[b]
}

// Policy is what a table declares for its records.
type Policy struct {
	Ballots Ballots
	// Gamma is how many options a master decides about after a collision. It means nothing to FastBallots and ClassicBallots.
	Gamma int
}

// Kept is about how many options a master decides before it opens the record.
func (p Policy) Kept() int {
	switch p.Ballots {
	case GammaBallots, LearnedBallots:
		return p.Gamma
	case ClassicBallots:
		return math.MaxInt
	}
	return 0
}
