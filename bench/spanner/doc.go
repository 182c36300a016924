// Command spanner repeats the evaluation of Spanner (OSDI 2012, section 5) on simulated clusters, in virtual time.
//
// # The question
//
// What does external consistency cost, how does a commit grow with its participants, and how much is lost with a zone? The answers are rounds of messages and waits for clocks. So virtual time gives
// them, within minutes. It does not include the time of computation: there are no queues, and the paper's throughputs have no counterpart here.
//
// # The setup
//
// Zones are regions of the simulator less than a millisecond apart. Epsilon is a configured bound: clusters have that maximum offset, and the default source of time (clock.System).
// External mode is a database with external_consistency = on; the default mode is one without, which has no commit wait.
//
//	table3.go    writes, read-only transactions and snapshot reads with 1, 3 and 5 replicas
//	table4.go    commits over 1 to 200 ranges
//	figure5.go   reads while a zone dies
//	table6.go    reads and commits over two coasts, as F1's
//	promise.go   what external mode costs, over epsilon; not a table of the paper
//	schema.go    changes of schemas at a registered time (section 4.2.3), and by way of two versions; not a table of the paper
//
// Figure 6 has time masters and daemons without nodes.
//
//	go run ./bench/spanner                     everything, in some minutes; plots and tables into docs/spanner
//	go run ./bench/spanner -figures table3     one of them
//	go run ./bench/spanner -quick              shorter runs, for a look; nothing is written
//
// Pages say whether the limits were kept that the project has set itself: a read-write transaction takes the longer of a round and two epsilon, not the sum; a read-only transaction does not wait for commits of other rows;
// reads are back three seconds after a zone has died, and a drained zone is not missed. Progress goes to standard error.
package main
