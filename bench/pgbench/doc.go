// Command pgbench asks: how does Meridian compare with PostgreSQL 15 on one machine, in throughput and in server CPU per
// transaction?
//
// It starts both systems and runs pgbench's built-in scripts (select-only, simple-update, tpcb-like) with
// prepared statements and eight clients against one and then the other, round after round, so that other load of the machine hits both. Three
// setups:
//
//	one     one Meridian node             against   one PostgreSQL server
//	three   three Meridian nodes          against   a primary with two streaming standbys, ANY 1 of them synchronous
//	five    five nodes, five replicas     against   a primary with four standbys, ANY 1 of them synchronous
//
// The CPU of a server is user and system time of all its processes, children that ended included, before and after a run, divided by the transactions
// that pgbench counted; for the later setups over all servers. A ratio is the median over the rounds of the ratio within a round. CPU per transaction
// is the steadier figure on a busy machine: throughput also depends on all other users of the processors, pgbench itself included.
//
// Besides pgbench's own there are scripts of the YCSB core workloads A to F (mixes.go), and of TPC-C, SmallBank and TATP (oltp); sysbench's own are run by that
// program, if it is installed. With --isolation, each round
// runs at each of the levels named, so that they alternate too. A transaction that fails with a serialization failure or
// a deadlock counts as failed; with --max-tries pgbench tries it again, and those tries are counted.
//
// With --systems postgres,meridian,fast_paxos there is another Meridian, whose pgbench tables have the commit protocol fast_paxos: what a vote of each replica costs,
// compared with a leader and its log.
//
// With --systems meridian,external --max-offset 1ms there is another Meridian, whose database is externally consistent: what the promise costs in CPU. Its transactions also wait for two epsilon, which is the
// maximum offset, so its throughput with few clients says how long that is, and nothing else. With --rate both carry out as many transactions: each costs more CPU, the fewer of them there are at a time.
//
// With --before BINARY, Meridian is compared with an earlier build of itself instead, in the same two setups: a change's price in CPU.
// The order within a round is reversed from round to round.
//
// Usage, from the repository's root:
//
//	go run ./bench/pgbench [--setups one,three,five] [--rounds 3] [--seconds 10] [--mix pgbench|ycsb|oltp|all|sysbench]
//	    [--isolation serializable,read-committed] [--buffers 256] [--json FILE] [--profile DIR]
//
// Both have caches of --buffers MB, whatever the machine has.
//
// With --profile, CPU profiles of the Meridian nodes are taken during their runs. Nothing is left behind.
package main
