// Command overload asks: how much of a node's throughput remains, and how long does a client wait, with ten and a hundred
// times as many clients as keep the node busy?
//
// It starts Meridian, on one node or three, and runs a script with more and more clients: pgbench's tpcb-like,
// simple-update and select-only, hot-row (all clients add to one row), and sysbench's oltp_read_write with its default skew.
// Two binaries are compared, each on a cluster of its own, one after the other at each point, so that other load of the machine hits both.
//
//	tps                          a point: clients, transactions a second, median, 99th percentile and longest wait,
//	 |      .--o----o before     CPU of all nodes per transaction, failed transactions
//	 |   o-'--x----x  after
//	 |  x                        aim: at each point beyond the peak, 80 % of its throughput, and a 99th percentile of
//	 '----------------- clients       at most twice clients / peak throughput
//
// Usage, from the repository's root:
//
//	go run ./bench/overload [--clients 8,16,64,512,1500] [--scripts tpcb-like,simple-update,select-only,hot-row]
//	    [--nodes 1] [--seconds 5] [--rows N] [--settle 3] [--isolation LEVEL] [--binary before=/path/to/meridian,after=] [--postgres]
//	    [--json FILE] [--svg FILE]
//
// The first seconds of a point (--settle), in which each session prepares its statements, do not count. The clients are pgbench's,
// on the same machine: the table also has their own CPU time for each transaction.
//
// A binary without a path is built from this tree. With --postgres a PostgreSQL 15 server is measured too. Each client is a connection, so the limit of open files has to be above the clients; the program
// raises its own as far as it may. Progress goes to standard error, the table to standard output.
package main
