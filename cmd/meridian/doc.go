// Meridian is a geo-distributed SQL database that PostgreSQL's clients can use.
//
//	meridian demo       a cluster of three regions in this process, with sample data and a shell   demo.go
//	meridian start      a node on disk; init begins a cluster on it                                start.go
//	meridian node       status of the nodes, decommission; user makes users                        start.go
//	meridian cert       the authority and certificates of nodes and clients                        cert.go
//	meridian sql        a shell, for this or any PostgreSQL server                                  shell.go
//	meridian workload   init and run bank, kv, ycsb and movr against any PostgreSQL URLs            workload.go
//
// This package has only flags and terminal output: a node is in package server.
package main
