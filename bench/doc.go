// Package bench has no code; its folders are experiments. Each states a question, how it is set up, and what was measured
// on which machine; a program runs it again.
//
//	figure2   the gain of parallel commits for writes with secondary indexes, three regions apart (CRDB'20, figure 2)
//	introspection  the latency of the catalogue queries of psql, drivers and ORMs on a thousand tables
//	mdcc      the evaluation of MDCC: latencies, conflicts and the loss of a data centre, in virtual time
//	overload  throughput and latency with far more clients than a node can serve
//	pgbench   how Meridian compares with PostgreSQL in throughput and in server CPU per transaction
//	queue     a table of jobs that many workers take with FOR UPDATE SKIP LOCKED, against PostgreSQL
//	regions   multi-region figures of CRDB'22, in virtual time
//	spanner   the evaluation of Spanner: commit wait, participants, the loss of a zone, in virtual time
//	tpcc      new orders per minute of TPC-C without waits, against PostgreSQL
//	cputime   the processor time of servers
//	pages     the command line of programs that repeat figures of papers, and their pages
//	plot      drawings for pages of results
//	postgres  PostgreSQL servers to compare with: one, or a primary with synchronous standbys
package bench
