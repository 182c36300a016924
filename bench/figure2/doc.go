// Command figure2 repeats figure 2 of CRDB'20: the gain of parallel commits for single-row writes.
//
// # The question
//
// A table of ten columns has 0 to 8 secondary indexes, each in ranges of its own, on three servers in three regions. A
// write of one row is then a transaction on up to nine ranges. With parallel commits it takes one round of consensus,
// without them two; a table without indexes takes one in any case. The paper saw the median latency fall by up to 47 %
// and the throughput grow by up to 72 %.
//
// # The setup
//
// Clusters of package simcluster, with and without txn.Options.TwoPhases: us-east1, us-west1 and europe-west1, 63, 87 and
// 132 ms apart, leases and clients in us-east1. A fixed number of clients inserts rows for a while, one after the other.
// By default this runs in virtual time, which is exact but does not include the time of computation. With -real it runs
// in real time over the same links, so processors count too.
//
//	go run ./bench/figure2                    the table on standard output, the plot into docs/figure2.svg
//	go run ./bench/figure2 -real -clients 64  in real time, some minutes
//
// It writes its progress to standard error.
package main
