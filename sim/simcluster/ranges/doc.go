// Package ranges has the tests of ranges and their replicas in whole clusters: leases, splits and merges, replicas
// that deviate or move, garbage collection, and nodes that start, stop, drain, die, or run out of disk.
package ranges
