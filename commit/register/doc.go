// Package register is a commit protocol without a log, for tests: each key is a register that any gateway reads and writes at a
// majority of the range's replicas (Attiya, Bar-Noy, Dolev, Sharing memory robustly in message-passing systems, J. ACM 42(1), 1995, with
// several writers). It shows that the contract of a range (docs/decisions/0009) carries a protocol that has no leaseholder; no
// binary has it. There are no scans, no locks and no conditions: it refuses such requests.
//
// # The state
//
// A replica has, for each register, the newest version that it knows, and the provisional writes of transactions. The base of the range
// has the version as an ordinary one at its tag, which is a timestamp; and the provisional writes, if there are any, as one protocol key
// next to the row. The delta has the whole register, as a durable key of the replica's own, from the first change in a generation on.
//
//	register x at a replica        tag          value
//	newest version                 17.w2        "a"       a write of gateway 2
//	decree T/1 at 20               20 by T      "b"       written: counts at 20 if T commits
//	decree U/3 at 30               30 by U                prevented: will never be there
//
// Tags are ordered by timestamp, then by transaction. A tag that a gateway draws itself carries the gateway's number and a random number of
// its start, so that no other gateway draws it.
//
// # Operations and messages
//
//	operation   rounds, each to all voters until a quorum has answered
//	Read        Query, then Store of the newest version (register.RG2)
//	WriteOf     Query for the tags, then Store with a later one
//	Propose     Query for the tags, then Accept in the first ballot: a transaction's write, provisional
//	Witness     Promise, then Accept: is the write there? if not, it is prevented (commit.CR4)
//	Settle      Query, then Resolve: the transaction has ended
//
// A read that meets a provisional write above the newest version asks the transaction's record. Committed: its version counts.
// Pending: it passes. Staging: it has to be recovered first, as it may have committed (package commit).
//
// Whether a provisional write is durable is a decision, not a count. With three replicas of which one has accepted it, one has
// not and one is silent, it is open whether the gateway has heard of two; and all observers need the same answer. So each write of a
// transaction, at one timestamp, is a decree of Paxos: the transaction proposes "written" in ballot zero, which is its own; a witness
// proposes, in a later ballot, the value that a quorum has accepted, or else "prevented".
//
// # Rules
//
//	register.RG1 (I1): A reply is sent when all changes that its acceptor had made by then are durable: others rely on it.
//	register.RG2 (I4): A read has stored the value that it returns at a quorum. So a read that begins later returns that or something later.
//	register.RG3 (I1): A generation's first state is the maximum of the reports of a quorum of sealed replicas, register by register: the
//	    newest version, and of each decree the value accepted in the latest ballot. An acknowledged operation had a quorum, and every two
//	    quorums have a replica in common. A fold is the Promise of a ballot above all others; ballots begin anew after it, and an
//	    Accept counts in the generation of its promises only.
//	register.RG4 (I2): Prevented writes are never forgotten in a range of this protocol: the write may still arrive, however late.
//	register.RG7 (I2): At or below the floor of its generation an acceptor takes every write for prevented that the base does not have. The
//	    range may have had another protocol since the write left its gateway, which prevented it and has nothing to remember it by in
//	    the base, and preventions of registers end when the range gets another protocol: the floor that it begins with is above them.
//	register.RG5 (I2): Settle with a commit stores the newest version at a quorum also if it met no provisional write: another one may have
//	    removed the write from one replica only, and once the record is gone the remaining copies look aborted.
//	register.RG6 (I4): A read that was told that a transaction is not committed queries once more before it passes its write: the
//	    transaction may have committed, been settled and lost its record between the query and the answer. After the answer, the
//	    version is at a quorum.
//
// # Why a read is linearizable together with transactions (I2, I4)
//
// A transaction commits, implicitly or not, no earlier than its record is STAGING and all of its writes are durable. A read that meets one of
// these writes queries the record, and each answer places the read:
//
//   - PENDING, or no record: the transaction had not committed when the record was queried, or it has ended. In the first case the read takes
//     effect before the commit. It may return a version that its second query finds (register.RG6), if that is below the write
//     that it passes: the writer of that version had not found the write at a quorum, so its operation began before the write was durable,
//     and precedes it in the order of tags. In the second case a quorum has the version before the record is removed (register.RG5), and the
//     second query finds it.
//   - STAGING: nobody can tell yet. The read waits, and has the transaction recovered once it has expired. A push of the transaction's
//     timestamp would not help, as it helps a read of the leader protocol: a register has no snapshot, so there is no timestamp at which a
//     read that ends after the commit could miss it.
//   - COMMITTED: the write counts if it is of the record's attempt and timestamp. Otherwise it was staged earlier, in vain, and the second
//     query finds the write that counts, which was durable before the commit.
//   - ABORTED: the write never counts.
//
// # Changes of the generation during an operation
//
// Each round is of one generation: all answers count by one descriptor's quorum. When the range has another generation the round begins
// again there, with the same tag and the same ballot. That is harmless for each of them: queries promise nothing; a tag stays later than
// those of all that had returned before its operation began; of ballots only the first, the transaction's own, needs no promise, and an
// acceptor refuses to Accept in another one by promises of an earlier generation (register.RG3, register.RG7). If the range has another
// protocol now, a write whose tag had not been sent is returned to the caller for the new protocol; otherwise its outcome is unknown. The
// gateway of a transaction then queries the record (txn.MP4), since the change has ended every transaction with a provisional write in the range.
//
// # Bounds
//
// The registers that were touched in a generation are in memory at each replica, and preventions are kept (register.RG4), so a range grows with
// the transactions that died. That suffices for tests; a protocol of the product would forget preventions that are older than any
// transaction may be.
//
// # Tests
//
// testdata/scripts has one situation each. TestRegister plays acceptors, gateways, records and a range that changes its replicas, at random, and
// checks each register's history (history.Registers.CheckDistinct); TestMistakesAreNoticed breaks the rules of the contract one by one.
// sim/simcluster has it in whole clusters.
package register
