package tpcc

import "math/rand/v2"

// Constants of the function NURand (clause 2.1.6), at full scale. The constants C are fixed, so that all processes that load and run agree; those of
// last names differ between load and run by a number that clause 2.1.6.1 allows, from 65 to 119 and neither 96 nor 112.
const (
	lastNameA, customerA, itemA = 255, 1023, 8191
	lastNameLoadC, lastNameRunC = 157, 223
	customerC, itemC            = 259, 7911
)

// between draws from low to high, both included.
func between(dice *rand.Rand, low, high int) int { return low + dice.IntN(high-low+1) }

// nuRand draws from low to high without uniformity (clause 2.1.6).
func nuRand(dice *rand.Rand, a, c, low, high int) int {
	return ((between(dice, 0, a)|between(dice, low, high))+c)%(high-low+1) + low
}

// scaledA is the constant A for a part of the full range: the largest 2^k-1 that is no larger share of the part.
func scaledA(a, full, part int) int {
	share := max(a*part/full, 1)
	for a > share {
		a >>= 1
	}
	return a
}

// syllables make last names (clause 4.3.2.3).
var syllables = [...]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

// lastName is the name of a number from 0 to 999.
func lastName(n int) string {
	return syllables[n/100%10] + syllables[n/10%10] + syllables[n%10]
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// appendText appends a random a-string (clause 4.3.2.2).
func appendText(b []byte, dice *rand.Rand, low, high int) []byte {
	n := between(dice, low, high)
	for n > 0 {
		// Ten characters per draw, six bits each; the last two of the 64 values stand for the first two letters.
		r := dice.Uint64()
		for range min(n, 10) {
			b = append(b, letters[r&63%uint64(len(letters))])
			r >>= 6
		}
		n -= min(n, 10)
	}
	return b
}

// appendDigits appends a random n-string.
func appendDigits(b []byte, dice *rand.Rand, n int) []byte {
	for range n {
		b = append(b, byte('0'+dice.IntN(10)))
	}
	return b
}
