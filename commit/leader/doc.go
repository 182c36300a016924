// Package leader is the commit protocol of CockroachDB: the range's leaseholder orders reads and writes.
package leader
