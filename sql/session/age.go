package session

import (
	"time"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/sql/session/parameter"
)

// How old what a session reads may be, where the nearest replica serves it (fastpaxos.FP85).

// ages are what the session's settings come to; the zero value is the protocol's bound.
type ages struct {
	// most is that of txn.ReadOptions.
	most time.Duration
	// presentUntil is up to when, by the host's monotonic clock, reads are of the present: later ones see in any case what had committed when the token was set.
	presentUntil time.Duration
}

// tokenAge is how old a token is that asks for nothing more than every read gives: the bound of staleness, a round trip, and the differences of clocks.
const tokenAge = 2*fastpaxos.StalenessMost + time.Second

// agesSet are the ages after one of the settings has changed.
func (s *Session) agesSet(name string) ages {
	a := s.ages
	if name == parameter.ReadAfter {
		a.presentUntil = 0
		if at := parameter.ParseToken(s.setting(name)); at != 0 && s.srv.Clock.Wall().UnixNano()-at < int64(tokenAge) {
			a.presentUntil = s.srv.Host.Clock.Monotonic() + 2*fastpaxos.StalenessMost
		}
		return a
	}
	switch d := s.duration(name); {
	case d == 0:
		a.most = -1
	case d >= fastpaxos.StalenessMost:
		a.most = 0
	default:
		a.most = d
	}
	return a
}

// maxAge is how old what the next statement reads may be, as txn.ReadOptions have it.
func (s *Session) maxAge() time.Duration {
	if s.ages.presentUntil != 0 {
		if s.srv.Host.Clock.Monotonic() < s.ages.presentUntil {
			return -1
		}
		s.ages.presentUntil = 0
	}
	return s.ages.most
}
