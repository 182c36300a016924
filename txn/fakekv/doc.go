// Package fakekv is all ranges of a cluster in one place, by brute force: what tests of the layers above txn run on.
package fakekv
