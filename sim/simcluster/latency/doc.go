// Package latency has the tests of what statements cost over distances: the wide-area round trips of each kind of
// statement, reads of the past and of GLOBAL tables, which answer in every region, and pauses while regions are lost
// or cut off.
package latency
