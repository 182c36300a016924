// Meridian is a geo-distributed SQL database that PostgreSQL's clients can use.
//
//	meridian demo       a cluster of three regions in this process, with sample data and a shell   demo.go
//	meridian start      a node on disk; init begins a cluster on it                                start.go
//	meridian node       status, drain, decommission of nodes; user makes users                     start.go
//	meridian upgrade    status and finalization of an upgrade                                      upgrade.go
//	meridian cert       the authority and certificates of nodes and clients                        cert.go
//	meridian sql        a shell, for this or any PostgreSQL server                                  shell.go
//	meridian workload   init, run and check bank, kv, ycsb, movr, tpcc and anomalies on any PostgreSQL URLs   workload.go
//	meridian version    the version and the build                                                   version.go
//
// This package has only flags and terminal output: a node is in package server.
package main
