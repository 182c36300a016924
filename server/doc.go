// Package server is a running node: it opens the store, joins or bootstraps a cluster, connects the layers, and shuts them down again.
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
//	server.SV1: a store's identity is durable before the node publishes it; a store never changes its cluster;
//	server.SV2: a node serves nothing before its clock has passed every reading that the store's earlier process may have published (I3,
//	    I4): the store remembers an upper bound of the clock, see clockguard.go;
//	server.SV3: a failure of the disk, of an invariant or of the clock stops the node (Failed), so that only durable commits are
//	    acknowledged (I1);
//	server.SV4: the resources of an HTTP client are bounded in bytes, connections and time, and only administrators see more than health and
//	    metrics: doors.go;
//	server.SV5: a node that resumes with a store appears in membership only when its peers do not object to its start, and its replicas take
//	    part in raft only when a quorum has recorded that (fence.FE1; I1);
//	server.SV6: a node that was drained stops when it has settled its transactions and answered the batches of others, within a bound, and
//	    refuses new ones before anything of them is done (transport.T9): no client is told 40003 because a node was stopped in order.
//
// The HTTP interface is in http.go, the administration commands over RPC in admin.go, SQL's queries about ranges in ranges.go.
package server
