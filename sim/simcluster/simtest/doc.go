// Package simtest has what the tests of simulated clusters share: statements that have to succeed, clusters of known
// shapes, waits until a cluster is at rest, comparisons of replicas, and the seeds that were asked for.
//
// The tests themselves are in the folders next to it, by subject, so that several packages keep all processors busy
// (docs/testing.md).
package simtest
