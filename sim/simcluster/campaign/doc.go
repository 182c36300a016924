// Package campaign has the campaigns: seeded faults on a cluster, clients that check what was acknowledged to them,
// and nodes of two binaries. Its other tests are of upgrades, and of the stores that earlier releases left
// (testdata/stores).
package campaign
