// Package leaderkv is a cluster without raft, sockets and processes: the real gateway (txn, its coordinator, route) and
// the real ranges (commit/leader, storage/mvcc), with nothing between them but calls that a test may hold back, lose or
// reorder. So the transactions of thousands of small clusters run in a second.
//
//	txn.DB at gateway g1 --- route ---+              +--- commit/leader of range 1, on node 1 --+
//	txn.DB at gateway g2 --- route ---+--- Wire -----+--- commit/leader of range 2, on node 2 --+-- one store
//	ranges' pushes ---------- route --+              +--- ...
//
// Messages on the wire are encoded and decoded as between nodes. Each gateway and each range has its own clock. A
// command is applied as soon as it is proposed, or after the wire's delay; raft and its faults are the subject of other tests.
//
// It exists for its own tests:
//
//	oracle_test.go    random transactions side by side; is there an order that explains what they read?
//	explore_test.go   two transactions, two keys: every order of messages, with a gateway that dies at any moment
package leaderkv
