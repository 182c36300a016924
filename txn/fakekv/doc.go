// Package fakekv has all ranges of a cluster in one map, by brute force: a fixture for tests of the layers above txn.
package fakekv
