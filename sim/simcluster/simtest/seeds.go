package simtest

import (
	"os"
	"strconv"
	"testing"
)

// Seeds are the seeds of a campaign: n from first on, unless the environment asks for others.
//
//	MERIDIAN_SEEDS=n   that many; MERIDIAN_FIRST=n begins elsewhere
//	MERIDIAN_SEED=n    this one alone
func Seeds(t *testing.T, first, n int) (seeds []int) {
	t.Helper()
	number := func(name string, into *int) bool {
		v := os.Getenv(name)
		if v == "" {
			return false
		}
		var err error
		if *into, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return true
	}
	if testing.Short() {
		n = 1
	}
	number("MERIDIAN_SEEDS", &n)
	number("MERIDIAN_FIRST", &first)
	if number("MERIDIAN_SEED", &first) {
		n = 1
	}
	for i := range n {
		seeds = append(seeds, first+i)
	}
	return seeds
}

// All reports whether the whole simulation runs (make sim), and not the part of it that is worth its time before each change.
func All() bool { return os.Getenv("MERIDIAN_ALL") != "" }
