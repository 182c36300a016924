// Command regions repeats multi-region figures of CRDB'22 and CRDB'20 on simulated clusters, in virtual time.
//
// # The question
//
// How many wide-area round trips do statements take, with each way of placing rows, and what happens to clients when a zone or a region fails?
// Both are properties of the protocols, so virtual time answers them exactly, on two processors and in minutes. It does not include the time of
// computation: throughputs are those of clients that wait for the network only, and say nothing about how much a node can do.
//
// # The setup
//
// Clusters of package simcluster with the round trips of CRDB'22's table 1 (sim.FiveRegions). Each figure is a file, with its question, its setup, its
// departures from the paper, and the paper's own values, which are drawn or listed next to the results. Clients sit in the regions of their gateways,
// and a seed decides their choices.
//
//	table2.go     CRDB'22 table 2     statements before and after the syntax of regions
//	figure3.go    CRDB'22 figure 3    rows of REGIONAL BY ROW tables: searches at home, uniqueness, rehoming
//	figure4.go    CRDB'22 figure 4    reads and writes of one table from five regions
//	figure5.go    CRDB'22 figure 5    TPC-C over 4, 10 and 26 regions
//	figure6.go    CRDB'20 figure 6    TPC-C while a zone and a region fail, by policy
//
//	go run ./bench/regions                     all figures but the next one, in 8 minutes of processor time; plots and tables into docs/regions
//	go run ./bench/regions -figures figure5large    figure 5 with 26 regions, which takes as long as the others together
//	go run ./bench/regions -figures figure4    one of them
//	go run ./bench/regions -quick              fewer clients and shorter runs, for a look; nothing is written
//
// It writes its progress to standard error.
package main
