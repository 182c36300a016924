// Package server is a running node: it opens the store, finds or begins a cluster, wires the layers together, and
// takes them down again.
//
//	Start
//	  |  engine.Open, identity            a store knows its cluster and node, or is new
//	  |  transport, cluster               the node listens and looks for others
//	  |
//	  +-- known store ----------------+
//	  +-- new store, Init -> bootstrap +--> serve: rangeserver, route, txn, liveness, SQL, HTTP
//	  +-- new store, join -> node id  -+
//
// Rules:
//
//	SV1  a store's identity is durable before the node says it to anybody; a store never changes its cluster;
//	SV2  a node serves nothing before its clock has passed everything that the store's previous node may have said
//	     (I3, I4): the store remembers an upper bound of the clock, see clockguard.go;
//	SV3  a failure of the disk, of an invariant or of the clock ends the node (Failed), so that nothing is acknowledged
//	     that is not durable (I1);
//	SV4  what an HTTP client holds is bounded in bytes, connections and time, and only administrators see more than
//	     health and numbers: doors.go;
//	SV5  a node that goes on with a store shows itself to others only when its peers have nothing against its start, and
//	     its replicas take part in raft only when a quorum has recorded that (fence, FE1; I1).
//
// The HTTP interface is in http.go, the administration commands over RPC in admin.go, what SQL asks about ranges in
// ranges.go.
package server
