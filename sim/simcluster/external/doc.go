// Package external has the tests of time: external consistency, judged from outside, clocks that are off, and time
// masters.
package external
