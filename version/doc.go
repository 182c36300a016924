// Package version says which version a cluster acts by, so that its nodes are upgraded one after the other while it runs.
//
// # The problem
//
// During an upgrade nodes of two binaries share ranges, messages and rows. A binary reads everything that the release before
// it wrote. The reverse does not hold: the earlier binary refuses, or ignores, later additions. So a node may write a new form only when no
// node is left that can't read it, and none can come back.
//
// # The idea
//
// A cluster has one version, which only grows. A binary has two: Own, the latest version that it can act by, and Oldest, the
// oldest version of a cluster in which it works. A node of a later binary joins a cluster and acts by the cluster's version,
// as if it were the earlier binary, until the upgrade is finalised (package upgrade).
//
//	                   Oldest                  acting                 Own
//	binary 0.1           0.1                     0.1                  0.1
//	binary 0.2           0.1       0.1  until finalised, then 0.2     0.2
//	                      |                                            |
//	                      +--- a cluster below is refused              +--- a cluster above is refused
//
// An addition after the first release is a Feature, with the version that introduces it. Code asks its node's Handle, and nothing else:
//
//	if handle.Active(version.SomeFeature) { write the new form }
//
// Readers never ask: a binary that knows a feature always reads it, because another node may have heard of the new version
// a moment earlier.
//
// # Rules
//
//	version.CV1: the version by which a node acts only grows, also over restarts: the store has it on disk before the handle has it.
//	version.CV2: a node acts by a version only after every node of the cluster, but those that were decommissioned, has durably promised not to go back
//	    below it. So a message, a raft command or a row of that version meets no binary that can't read it.
//	version.CV3: nothing on disk is in a form that a version introduces before the node acts by that version; until then the earlier
//	    binary can be started on the store.
//
// Package upgrade shows how version.CV2 is kept, and storage/engine how a store refuses a binary that is too old or too new before it
// writes anything. Package transport refuses such a node in its handshake (Check).
//
// # Adding a feature
//
// A constant and a row in features.go, with the next internal step as its version; Own in built.go grows to that step. A
// release is a row without a step. A change of existing data that a new version requires is a migration
// (upgrade.Migration).
//
// The build tag nextversion builds the binary of a release that does not exist: the present one, with a field of a message, one of a raft command and one
// of a descriptor (next.go). docs/versions.md goes through them. test/kill upgrades three processes to it.
package version
