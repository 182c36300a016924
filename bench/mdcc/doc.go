// Command mdcc repeats the evaluation of MDCC (EuroSys 2013, section 5) on simulated clusters, in virtual time.
//
// # The question
//
// How long do transactions wait that commit without a master, and how many of them fail, with few and with many conflicts? The answers are properties of the protocols and of
// the distances between data centres. So virtual time gives them, on one processor and in minutes. It does not include the time of computation, nor the
// jitter of a real network: latencies have steps where the paper's have slopes.
//
// # The setup
//
// Five regions with EC2's round trips of 2013 (ec2.go). Two of the paper's systems are Meridian itself, over SQL: "MDCC" are updates that commute on a table of the
// protocol fast_paxos, "Fast" are the same updates with RETURNING, which read the value and so replace the row. The others are small protocols that exist for comparison only
// (compare.go, rivals.go): they have the message rounds, locks and logs of the paper's descriptions, over the same round trips, and keep nothing on disks.
//
//	figure3.go    latencies of TPC-W's writes       MDCC, QW-3, QW-4, 2PC, Megastore*
//	figure4.go    throughput of TPC-W over scales   the same
//	figure5.go    latencies of the micro benchmark  MDCC, Fast, Multi, 2PC
//	figure6.go    commits and aborts by hot spots   the same
//	figure7.go    latencies by locality of masters  MDCC, Multi
//	figure8.go    the loss of a data centre         MDCC
//
//	go run ./bench/mdcc                     all figures, in a quarter of an hour of processor time; plots and tables into docs/mdcc
//	go run ./bench/mdcc -figures figure5    one of them
//	go run ./bench/mdcc -quick              fewer clients and shorter runs, for a look; nothing is written
//
// After each run the stocks of all items are compared with what clients bought, in every region: they have to be the initial ones without what was sold, and never negative. The
// program fails otherwise. It writes its progress to standard error.
package main
