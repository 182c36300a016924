package session

import (
	"math/bits"
)

// series generates the numbers of random() after setseed. They are those of PostgreSQL 15, which uses xoroshiro128** (Blackman and Vigna, 2018),
// seeded by splitmix64.
type series struct{ a, b uint64 }

func newSeries(seed float64) *series {
	state := uint64(int64(float64(uint64(1)<<52-1) * seed))
	next := func() uint64 {
		state += 0x9E3779B97f4A7C15
		v := state
		v = (v ^ v>>30) * 0xBF58476D1CE4E5B9
		v = (v ^ v>>27) * 0x94D049BB133111EB
		return v ^ v>>31
	}
	return &series{next(), next()}
}

func (s *series) float() float64 {
	v := bits.RotateLeft64(s.a*5, 7) * 9
	x := s.a ^ s.b
	s.a = bits.RotateLeft64(s.a, 24) ^ x ^ x<<16
	s.b = bits.RotateLeft64(x, 37)
	return float64(v>>12) / (1 << 52)
}

// Random implements system.Environment.
func (e *environment) Random() float64 {
	if e.series != nil {
		return e.series.float()
	}
	return e.s.srv.Host.Dice.Float64()
}

// SetSeed implements system.Environment. As in PostgreSQL, the series lasts until the session ends, also if the transaction is rolled back.
func (e *environment) SetSeed(seed float64) { e.series = newSeries(seed) }
