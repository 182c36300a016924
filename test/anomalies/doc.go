// Package anomalies has no code, only tests: package workload/anomalies, over the wire, on real processes of PostgreSQL
// 15 and of Meridian, at each level of isolation.
//
//	                  PostgreSQL                        Meridian, one node and three
//	READ COMMITTED    must show what RC allows          must not show what RC forbids
//	REPEATABLE READ   must show write skew              must not show what a snapshot forbids
//	SERIALIZABLE      must show nothing                 must show nothing
//
// That PostgreSQL is caught where it promises less is the proof that the workloads and checkers would notice.
//
// Run with MERIDIAN_ANOMALIES=10s (how long each level lasts), or `make anomalies`; it needs PostgreSQL.
package anomalies
