// Package fastpaxos commits without a master (Kraska, Pang, Franklin, Madden, Fekete, MDCC: multi-data center consistency, EuroSys 2013): a
// gateway in any region asks all replicas of each row that a transaction writes, in parallel, and has the outcome after one round trip to a
// fast quorum of each. It follows the contract of a range (docs/decisions/0009); docs/decisions/0013 has the choices.
//
// # Rooms
//
//	core      records, options, ballots, acceptors, masters, terms and their bytes: values
//	replica   what a replica drives: an acceptor over the range's base, folds, news
//	gateway   what a transaction drives: commits, masters, turns, reads, announcements, recovery
//
// Both replica and gateway import core, and do not see each other: they talk by messages, and the node's registry joins them.
//
// # The state
//
// A row is a record, with a state of its own at each replica:
//
//	record of a row           at a replica
//	base                      its newest version, of 17
//	added                     commuting updates that were executed since, of 18 and 21
//	votes                     T at 24: accepted, has not ended
//	recent                    U at 23 was rejected, W at 17 has committed
//	ballots                   promised, accepted; none is stored before a master was needed
//
// An option is a transaction's update of one record. It names the state that it was made for (Seen), and the keys of all of the transaction's
// options. A replica accepts it if no other one is in the way, or rejects it, and keeps the vote until the transaction has ended. In a range's
// base, the newest version is an ordinary one of the row, at the commit timestamp; all else is one protocol key next to it, which is not there if it
// says nothing. The delta has a key for each vote, each outcome, and each update that was executed since (core/delta.go). Versions go into the base while the
// range is served, and what is there is dropped from the deltas (core/absorb.go).
//
// # Messages
//
//	Propose   an option, to all voters: a vote in the ballot that the replica is in (Commit)
//	End       the outcome of its transaction, to all voters, with the next proposals to them or soon (gateway/announce.go)
//	Show      the outcome of a commuting update, to the nearest replica with the next Read of the row; it promises nothing
//	Forget    all of the transaction's options have ended, everywhere
//	Query     the record
//	Prepare   a master asks to accept nothing in earlier ballots; each replica answers with its record (Master)
//	Dictate   the state that the master proposes, which replaces the votes
//	Reign     a master asks for Prepare's promise about all records of the range, with an answer that names those of which it has to know more (core/term.go)
//	Read      rows, from one replica: no promise
//
// Three of three, four of five, or six of seven replicas that gave the same vote in the same ballot are a fast quorum. If none can come about any more, or
// a gateway is gone, a master is made: anyone, with a later ballot. A majority promises it; what may have been learned by a fast quorum, and the
// rest as the master decides, is learned once a majority has taken it over. After some options the master opens the ballot to all (gamma).
//
// # Rules
//
//	fastpaxos.FP1 (I1): A reply is sent when all changes that its acceptor had made by then are durable. Rejections are promises too: a recovery
//	    that did not find one could accept what was reported as aborted.
//	fastpaxos.FP2 (I1, I2): A verdict that a fast quorum has given in one ballot, or a classic one has taken over from a master, is learned, and final. A transaction is
//	    committed as soon as all of its options are learned as accepted; nobody has to say so. No gateway decides.
//	fastpaxos.FP3 (I4): Only committed versions are read. So an option that was made for a version proves that this version's transaction has
//	    committed: an acceptor that has it as an accepted option executes it. It was not told yet.
//	fastpaxos.FP4 (I4): A record's value is its newest version with the commuting updates after it, in whichever order outcomes came. Of two
//	    physical updates the later one counts, since it was made for the earlier one, or for one after it.
//	fastpaxos.FP5 (constraints): In a fast ballot an acceptor gives away no more of a column's distance from its bound than its part, such that the
//	    options that quorums have accepted come to no more than the distance, whichever acceptors the quorums are (§3.4.2; Quorums.budget).
//	fastpaxos.FP6 (I2): An acceptor remembers the outcome of a transaction with several options until it is told that all of them have ended, at
//	    quorums. An acceptor that meets an option which has not ended asks for the others. Afterwards it remembers the outcome for a minute, by
//	    the timestamps of options; that of a transaction with one option, from the start. An outcome that it has forgotten is past. So is an option
//	    that it never knew and that comes as late. Past means rejected where an option of the transaction is known not to have ended; otherwise it
//	    says nothing.
//	fastpaxos.FP7 (I1): Commuting updates become a version only up to Closed, when a classic quorum has the state with that. Every later state has all of
//	    them then, and no others below, so whoever makes the version of that timestamp makes the same.
//	fastpaxos.FP8 (read committed): A read gives what has committed, and need not wait for a sync: what was executed here is committed elsewhere
//	    too. A record that lacks a version which one of its options was made for (Behind) is not read here.
//	fastpaxos.FP9 (I1, I2): A generation's first state is what a master would propose to the reports of a quorum of sealed replicas in a ballot
//	    above all others, deciding against all that was not learned. All replicas begin with it, in the ballot that every record begins with. A
//	    report has what its replica has changed; of other records the replica's state is the base's. At or below the generation's floor, what the base
//	    does not know is past (fastpaxos.FP6): a copy that comes late is not taken for a new option.
//	fastpaxos.FP10 (I1): A fold that is made again, from whichever reports, leaves the records that it has decided before as they are. With another
//	    quorum's reports an option could be decided otherwise. If the states of two folds were mixed, both decisions would count. So each protocol
//	    key tells which range wrote it, and at the end of which generation. It is in one command with its row. A version of a record without a
//	    protocol key counts, even if no report has it.
//	fastpaxos.FP11 (I2): Before a range has another protocol, each transaction with an outstanding option in it is ended, and the range remembers each one that has
//	    committed with records elsewhere, until it has this protocol again and is told that they have all heard. Other outcomes it keeps for a minute, for gateways that were
//	    not told before the change (recall). It has no option then. Ranges that are sealed at the same time ask each other: the answer of a folded range about an option is final.
//	fastpaxos.FP40 (I1): The parts of a record that a replica's delta has, with the version that its base has if that is later, are the record: a delta has all of it
//	    from the first change in a generation on. A message writes the parts that it has changed, in one batch. An outcome that nobody will ask
//	    for here need not be synced: it can be learned again. Entries that were written after it are lost with it.
//	fastpaxos.FP41 (I1, I2): A record that is as the base has it is dropped from a delta minutes after its last outcome, and the replica's floor for all records that it does not
//	    know is raised to that outcome, in the same batch. To such a record an option of then is past, as it was to the one that was dropped.
//	fastpaxos.FP42 (I4): A physical version that some replica has executed is final, whatever is outstanding: the leaseholder may add it to the base at any time, at its own
//	    timestamp, and a replica takes over a later version that it finds in its base. Updates that commute stay in the deltas until they are part of a version.
//
// fastpaxos.FP80 to fastpaxos.FP83 are about rows that others refer to (gateway/guard.go), fastpaxos.FP84 about what statements that change rows decide by (gateway/current.go), fastpaxos.FP89 about the timestamps of serializable transactions (gateway/client.go), fastpaxos.FP90 to fastpaxos.FP95 about masters of all records of a range (core/term.go), fastpaxos.FP96 and fastpaxos.FP97 about reads at timestamps of earlier generations (core/generations.go), fastpaxos.FP98 about options that are past (gateway/snapshot.go).
//
// # Joint configurations
//
// While the range has two configurations, quorums are so large that each of them is a quorum of both (QuorumsIn). A seal needs fewer reports, majorities
// of both halves; the rule by which a report counts holds for them too, since two fast quorums of one half leave out less than a majority of it.
//
// # Tests
//
// TestScripts plays the paper's situations message by message (core/testdata/scripts), its figure 2 among them. TestExhausted searches all states of a record, and of two, with a few options and masters (core/exhaust_test.go; docs/testing.md has the figures). TestEveryOrder and TestRandomOrders have the
// messages arrive in many orders, with the gateways' commits (core/model_test.go). TestFoldAtAnyMoment ends generations
// in the middle of that; in TestFoldsInterrupted folds fail, and are begun again. In TestDelta a
// replica is stopped between any two writes. TestReadersOverGenerations has transactions that read at one timestamp over many generations. replica/fold_test.go has the situations one by one, and rangeserver's TestFastPaxos has them at replicas.
package fastpaxos
