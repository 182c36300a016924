// Package workload drives a database as applications do and measures what they would see. Each workload has a setup, a
// step that many workers repeat, and a check of its invariants; all of them use only PostgreSQL's SQL, so the same
// program measures PostgreSQL.
//
//	Run -- workers --> step, step, step ...     one connection each; URLs in turn; reconnected when a node dies
//	  |                     |
//	  |                     +-- outcome: done, retried (40001, 40P01), unknown (40003, lost connection), failed
//	  +-- every second: operations, errors, p50 p95 p99
//	  +-- at the end: summary, histogram file, check
package workload
