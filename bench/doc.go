// Package bench has no code; its folders are experiments. Each states a question, how it is set up, and what was measured
// on which machine; a program runs it again.
//
//	figure2   what parallel commits do for writes with secondary indexes, three regions apart (CRDB'20, figure 2)
//	introspection  what psql, drivers and ORMs wait for when they look at a thousand tables
//	overload  what is left of throughput, and how long clients wait, when far too many of them come
//	pgbench   how Meridian compares with PostgreSQL in throughput and in server CPU per transaction
//	postgres  PostgreSQL servers to compare with: one, or a primary with synchronous standbys
package bench
