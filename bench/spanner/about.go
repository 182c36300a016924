package main

// The texts of the pages of results. Code in them is quoted with two apostrophes, which become backquotes (main).

const network = `Zones are 0.7 ms apart; within a zone a round trip takes 0.25 ms, and each write to the network up to 0.06 ms longer, at random. Epsilon is 4 ms, the paper's average, as a configured bound (''--max-offset''); the machines' clocks are
wrong by up to 1 ms. One node in each zone. Virtual time does not include computation, so there are no queues, and throughput would mean nothing: it is not reported.`

const aboutTable3 = `
**Question.** How long do single operations take, with commit wait and without?

**Setup.** ` + network + ` A table of 500 rows of 4 KB in 50 ranges, whose leaseholders are in all zones in turn. A client in each zone runs one operation at a time, chosen rows at random: an UPDATE of one row, a SELECT
of one row (which is a read-only transaction by itself), a block of BEGIN READ ONLY, two SELECTs and COMMIT, which is four round trips of the client, and a SELECT AS OF SYSTEM TIME '-10s', which the nearest replica serves. Ten runs of 40 each, after an unmeasured one.

- **external** is a database with ''external_consistency = on''.
- **default** is one without: no commit wait. With one replica it is the paper's 1D.

In the first half disks take no time; in the second half a sync of a disk takes 9 ms, so that consensus takes as long as the paper's.

**Departures.** The paper's database has 2,500 directories; 50 ranges are its 50 groups. Its clients are on other machines and use their own library; ours send SQL to a gateway in their zone.
A write of the paper takes its commit wait in addition to consensus: 14.4 ms, where each alone takes 5 and 9 ms. Here the wait begins when the timestamp is chosen, so consensus is a part of it.
`

const aboutTable4 = `
**Question.** How does a commit's latency grow with the number of groups that take part?

**Setup.** ` + network + ` Three zones, and a table in 200 ranges, whose leaseholders are in all zones in turn. One client runs ''UPDATE t SET n = n + 1 WHERE k = ANY($1)'' with one row in each of 1 to 200 ranges, as a transaction by itself.
The latency is that of the whole statement: it reads the rows where their leaseholders are, and then commits. Ten runs of 10 each, so that the 99th percentile of a run is its longest. A gateway sends the parts of a request to 64 ranges at a time (''route'', maxParallel), so reads
and commits take two steps for 100 ranges, and four for 200. In external mode the commit's steps are shorter than its wait.

**Departures.** One node in each zone, where the paper has 25. There is no second round of consensus: the transaction's record is staged while the writes replicate (parallel commit). Computation and disks take no time, so the numbers show
rounds and waits only, and not what 200 participants cost in work, which is most of the paper's growth.
`

const aboutFigure5 = `
**Question.** How many reads are lost when a zone dies?

**Setup.** ` + "Five zones, 0.7 ms apart, with two nodes each; epsilon is 4 ms. The table has 100 ranges, with a replica in each zone, and all leaseholders are in Z1, those of the system's ranges too (''lease_preferences''). The database is externally consistent. " + `100 clients in Z3, Z4 and Z5 ask for
2,000 reads per second together, at constant times, of random rows: a SELECT of one row, at the present. A client whose read is late goes on with the next one at once, until it has caught up. After 5 s all nodes of one zone die at the same
moment:

- **non-leader**: Z2 loses power: nobody hears from it that it has gone
- **leader-soft**: Z1's nodes are drained from 5 s on (as by ''meridian node drain''), and their processes end when that is done (as by SIGTERM)
- **leader-soft, killed 2 s after the notice**: they are drained from 5 s on, which takes some 0.6 s, and their processes are killed at 7 s (as by SIGKILL: links are reset)
- **leader-soft, power lost when drained**: they are drained, and their machines lose power at the moment at which that is done
- **leader-hard**: Z1 loses power without notice

**Departures.** 100 ranges instead of 1,250, two nodes in a zone instead of 25, and 2,000 reads per second instead of 50,000: there is no lack of capacity in virtual time.
Leases here follow the liveness of nodes, not ten seconds of their own.

**What is not promised.** A node that drains tells the others first, then moves its leases, and answers for a second more, so that gateways hear where the leases are. A gateway that asks for none of a range's rows in that second keeps
the earlier leaseholder in mind; if its machine then loses power, the gateway waits for it until the link is given up, two seconds.
`

const aboutTable6 = `
**Question.** What latencies does an application like F1 see, with replicas on both coasts?

**Setup.** Five data centres, three on the east coast and two on the west coast, with one replica of each range in each. Leaseholders are in two data centres of the east coast, half of them in each, where the clients are, too: 30 of them, for 30 seconds. Epsilon is 7 ms, the
largest that the paper names. 2,000 rows of 1.6 KB in 20 ranges, drawn by a Zipf distribution. Of 100 operations 90 read one row, 5 read and update one row, and 5 read and update three rows, mostly of different ranges and of both data centres' leaseholders. Transactions that fail by a conflict are begun again.

Round trips, in ms, chosen by us, since the paper lists none (clouds' regions on these coasts have such):

| | east2 | east3 | west1 | west2 |
|---|---:|---:|---:|---:|
| east1 | 12 | 18 | 63 | 67 |
| east2 | | 10 | 60 | 64 |
| east3 | | | 55 | 59 |
| west1 | | | | 20 |

**Departures.** F1 had 340 reads for each commit; with that share there would be too few commits to say anything. Its reads include scans, disks and two data centres with different ones. Its quorums are slower than ours, whose three replicas on one coast suffice,
so means are comparable in their order only: reads, commits at one site, commits at several.
`

const aboutPromise = `
**Question.** What does external consistency cost, compared with the same loads in the default mode?

**Setup.** The two modes are two databases of one cluster. It has three zones 0.7 ms apart, or five regions (63 to 274 ms; the round trip to the quorum is 87 ms from us-east1), with a replica in each. Leaseholders and clients are in the first one. Epsilon is
a configured bound, from 1 ms to 250 ms. Clocks are right, up to a quarter of it.

- **write**: an UPDATE of one row. **read and write, two ranges**: BEGIN, a SELECT, an UPDATE in each of two ranges, COMMIT. **read**: a SELECT of one row, or of two rows in two ranges. One client.
- **longest read next to commits**: three clients commit in two ranges all the time; another one reads rows of the same range that nobody writes. The longest of 200 reads.
- **read of a row that is being written**: the mean of 200 reads of the rows that these clients update.
- **updates of one hot row**: five clients update the same row; updates per second. A commit of it is above the one before, which another transaction sees when it has passed: there is one in each two epsilon.

**CPU.** Virtual time does not include it. ''go run ./bench/pgbench -setups one -systems meridian,external -scripts simple-update,select-only -max-offset 1ms'' measures it in real time.
On a machine that did other work at the same time (two rounds of 5 s, eight clients), simple-update took 239 us of CPU for each transaction in the default mode and 275 us in external mode (the rounds' ratios: 1.03 and 1.29), select-only 20.9 and 22.7 us (1.08 and 1.09).
At the same rate the two are closer than at full speed, where external mode, which waits, has fewer transactions to share rounds and idle costs with. With ''-max-offset 4ms -rate 400'' (eleven rounds of 6 to 10 s), simple-update took 543 us in the default mode
and 584 us in external mode; the median of the rounds' ratios is 1.07, and they range from 0.99 to 1.37 on this machine. It was 1.16 before the refresh that each external commit carries was spared the look at the lock table (4.1 % of the CPU in a profile, 1.3 % since). The rest is the wait itself: a timer, and a
goroutine that is put to sleep and woken, for each commit.
`

const aboutFigure6 = `
**Question.** How uncertain is time, right after daemons have polled the time masters, and how does that change with the network and with the masters?

**Setup.** Three data centres, whose round trips to each other take 8, 16 and 22 ms, with four time masters each, which claim an error of 50 us. Twelve daemons in each data centre poll every 30 s, the three nearest masters and one of the
others in turn; the clocks of their machines drift by up to 100 us/s. Within a data centre a round trip takes 0.4 ms, and each write up to 0.1 ms longer. In the first third of the time 2 % of the daemons have a slow way to
all masters at each poll, by 4 ms on average, exponentially distributed; afterwards 0.2 %, by 1 ms. At the beginning of the last third two masters of one data centre are cut off for an hour. Samples are of the daemons alone: there are no nodes.

**Departures.** The paper shows weeks of several thousand machines; here hours of 36. Its masters and daemons use a protocol of their own, ours NTP.
`

const aboutSchema = `
**Question.** Whom does a change of a schema keep from going on, and for how long, if the table has a thousand ranges in 26 regions? And is a version that is valid from a registered time on sooner there than by way of two versions?

**Setup.** One node in each of 26 regions all over the world (''sim.World'', as for TPC-C over regions; the longest round trips take some 300 ms), and 39 ranges in each; or in each of the first five of these regions, and eight ranges in each. The database is
externally consistent, and epsilon a configured bound; clocks are wrong by up to a quarter of it. Each region has the leaseholders of its ranges, with replicas there and in the two nearest regions. Four clients at each gateway run statements all the time, with 40 ms between: SELECT
of one row and UPDATE of one row, of ranges of their region (near) and of one half the list of regions away (far). Nobody writes the rows that are read. Another client in us-east1 makes the changes, with two seconds between.

- **registered**: ''sql.schema_change.registered = external'', the default.
- **two versions**: ''never'', so the way of [all other tables](../catalog.md).

The same cluster has both, one after the other. Then a column is added next to a transaction that has read the table.

In the small cluster, of three zones 0.7 ms apart with databases in the default mode, **registered** is ''always'', and **two versions** is the default.

**Departures.** The paper has no such measurement. Replicas are placed by hand, and stay; a range has two rows, so that backfills are rounds of messages and no work. Virtual time does not include computation. In 26 regions no index is made: the backfill reads one range after the other, which took 64 s (registered) and 40 s (two versions) for 312 ranges,
measured once. An update of a far row that is under way at the time of a change starts over, if it can't commit before: it reads once more.
`
