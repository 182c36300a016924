package main

// The texts of the pages of results. Code in them is quoted with two apostrophes, which become backquotes (page).

const aboutFigure3 = `
**Question.** How long do the writes of TPC-W take, compared with writes that promise less, and with transactions that need more?

**Setup.** A workload like TPC-W's with the mix of interactions that writes most (ordering), 10,000 items in four ranges, 100 clients, 20 in each region, which do one interaction after the other.
Of the fourteen interactions, shopping cart, buy request, buy confirm and admin confirm write: 37 % of all. Buy confirm inserts an order with its lines and its payment, and takes the lines' pieces from the
stocks by updates that commute, under CHECK (i_stock >= 0); stocks begin with 10 to 30 pieces. All of it is one transaction, of up to some twenty records in five tables. Reads are local in all systems and are not
reported. A transaction that is aborted by a conflict is tried again after a moment, and its latency includes that.

- **MDCC** is Meridian: all eight tables have the protocol fast_paxos.
- **QW-3** and **QW-4** send updates to all replicas and wait for three or four. They promise nothing: the last writer wins, and the table tells how many pieces were sold that are still in stock.
- **2PC** locks at all replicas, and waits for all of them twice.
- **Megastore\*** has one log for all transactions; each position takes a round to a majority and has one transaction; those that do not conflict take later positions. All clients and the master are in US-West, as in the
  paper. It is measured for two minutes after one.

The last four are protocols of comparison (''bench/mdcc/rivals.go''), over the same round trips. They do not know that updates commute, and keep nothing on disks.

**Departures.** Fifteen seconds instead of two minutes, and one node in each region instead of four. Computation takes no time. The tables have the columns that the interactions
need, and no more.
`

const aboutFigure4 = `
**Question.** Does throughput grow with clients and data?

**Setup.** The workload of [figure 3](figure3.md) with 50 clients and 5,000 items, 100 and 10,000, 200 and 20,000: the paper's scales. The table of items has a range for every 2,500 items, as
the paper has a storage node. Megastore\* has one log for all, and its clients are in US-West.

**Departures.** One node in each region at all scales: virtual time does not include computation, so what more nodes would add is not seen. The figure says that waits do not grow with the scale,
and no more. All are measured for five seconds, Megastore\* for two minutes. The paper draws bars and gives no table.
`

const aboutFigure5 = `
**Question.** How long does a purchase of three items take: with updates that commute, with updates that do not, with masters, and with two-phase commit?

**Setup.** A table of 10,000 items in two ranges, with stocks between 100 and 1,000 and CHECK (i_stock >= 0), and five replicas of each range, one in each region. 100 clients, 20 in each region,
take one to three pieces of three items, chosen uniformly, in one transaction of three UPDATEs, one purchase after the other. A purchase that is aborted is not tried again.

- **MDCC** is Meridian: the table has the protocol fast_paxos, and ''UPDATE item SET i_stock = i_stock - $2 WHERE i_id = $1'' commutes.
- **Fast** is the same with ''RETURNING i_stock'': the statement reads the value, so its update replaces the row that was read.
- **Multi** and **2PC** are protocols of comparison (''bench/mdcc/rivals.go''). Multi has a master for each record, a fifth of them in each region. The master asks the replicas, learns from a majority of them, and answers, so
  that a client in another region waits for two round trips. It rejects an option if another one is outstanding. 2PC locks the records at all replicas in its first phase; nobody waits for a lock.

**Departures.** Thirty seconds instead of three minutes, and one node in each region instead of two. The paper chooses stocks at random without saying in which bounds. Not measured: masters
that stay in a place (so Multi is not the engine), and the paper's policy that keeps the next 100 instances of a record classic after a collision (gamma). Here the gateway that met the
collision is the record's master until it has decided, and opens the record to all again. When replicas have promised 16 MiB of a range, its generation is folded, and commits wait for that: these are among
the longest latencies.
`

const aboutFigure6 = `
**Question.** How many purchases fail if most of them want the same few items?

**Setup.** The micro benchmark of [figure 5](figure5.md), but 90 % of the accesses go to a hot spot, which is 2 to 90 % of the items. A purchase that is aborted is not tried again; its client goes on with another one.

**Departures.** Ten seconds instead of three minutes; numbers are per minute. The table has fast ballots (''fast_paxos_ballots''): a record is opened to
all after each collision. Multi rejects an option at once if another one is outstanding, where the paper's seems to let some of them wait.
Stocks are between 100 and 1,000, of which the hottest items lose some hundred in ten seconds, so few records come near their limit; the paper does not say how near its own were.
`

const aboutFigure7 = `
**Question.** When is a master worth its place?

**Setup.** The micro benchmark of [figure 5](figure5.md) with other choices. A share of the accesses is to items whose master is in the client's region: from all of them to one in five, which
is no choice at all. MDCC has no masters; it gets the same transactions.

**Departures.** Six seconds instead of three minutes. Multi is a protocol of comparison: Meridian does not keep a record's master in a place yet.
`

const aboutFigure8 = `
**Question.** Do commits pause when a data centre is lost?

**Setup.** Clients in US-West run the micro benchmark of [figure 5](figure5.md). From the 20th second on US-East receives no messages, while its own still arrive, as in the paper. US-East is the data centre
that is nearest to US-West, so a quorum of four then needs the farthest one.

**Departures.** 25 clients instead of 100, and 40 seconds instead of some five minutes.
`
