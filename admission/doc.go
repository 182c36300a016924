// Package admission decides which work a node begins when it has more than it can do.
//
// The problem. A node with a thousand clients that all run at the same time does less work than one with ten: transactions that hold locks
// wait for a processor behind others that are about to wait for these locks; waiting transactions push, refresh and run again; and the
// order is left to chance. Queued at the gate and admitted one by one, the same clients get the throughput of ten, and each waits equally
// long.
//
// The idea. A session enters the node's Gate before it works on a message of its client, and leaves it when it rests. As long as fewer
// sessions run than the limit, entering is an atomic addition. Beyond it they queue:
//
//	client's message             Enter                                Rest: the answer has left
//	     |                         |                                        |
//	     v          .--------------v---------------.      .-----------------v--.
//	  Session ----->| holder   -------------------------->|                    |
//	                | open     [ ][ ][ ]           | ---->| running  <= limit  |---->
//	                | fresh    [ ][ ][ ][ ][ ]     | ---->|                    |
//	                | crowd    [ ][ ][ ][ ][ ][ ]  | ---->|   crowd  <= crowd  |
//	                | rivals   [ ][ ][ ][ ][ ]     | ---->|   rivals <= rivals |
//	                '------------------------------'      '---------|---^------'
//	                                                           Block|   |Resume
//	                                                                v   |
//	                                                         waits for a lock
//
// A statement of a transaction that may hold locks is a holder: it never waits, since others wait for it. A statement of a transaction that
// has begun, and holds no lock yet, is open and has precedence over those that begin one, which are fresh. A session whose last
// transactions waited for locks, or a new session, belongs to the crowd when it begins one: only as many transactions of the crowd run at
// the same time as keep their locks busy. Other sessions are not affected. While a session waits for a lock, another session has its place.
//
// A session whose transactions have lost conflicts (40001, or a second run of statements whose answers the client has) belongs to
// the rivals when it begins one. If every transaction reads rows that the others write, all but one of those that overlap are in vain; so
// the rivals' limit follows the share of their transactions that is lost, down to one at a time.
//
// While sessions queue, the limits follow measurements that are taken every tick: how late the runtime gives a goroutine a processor, how
// much of the machine is idle (Options.Load), and which part of the crowd waits for locks. A limit grows while processors are idle, so that
// a thousand sessions which wait for another continent, or sleep, do not delay others.
//
//	admission.AD1 (liveness): A session that may hold locks is never queued. So a running statement never waits for a queued one.
//	admission.AD2 (liveness): While sessions queue, either some session leaves, or the limits grow. So admission is delayed at worst,
//	    whatever the admitted sessions wait for: a lock whose holder sleeps, a client, another node.
//	admission.AD3 (fairness): Within a class sessions are admitted in the order in which they came, but for admission.AD8, and a session has one place at most.
//	    One in freshShare admissions is for sessions that begin a transaction, even if open ones queue.
//	admission.AD4: A session that is cancelled, or whose time is over, leaves the queue immediately.
//	admission.AD5 (I9): Work that keeps a node alive never enters the gate: liveness heartbeats, raft, leases, closed timestamps, pushes,
//	    the end of transactions. The gate stands before sessions of clients, at their own node; requests that arrive from other nodes were
//	    admitted there, so they are not admitted twice, and two nodes can't wait for each other.
//	admission.AD6: Elastic work waits before each piece while clients queue or processors are late, but no longer than elasticMax: it has
//	    the lowest priority, and still makes progress.
//	admission.AD7 (I9): Transactions that would probably be lost are not begun: the rivals' limit shrinks while more than a quarter of their
//	    transactions is lost, and grows, one by one, while few are. After an increase that failed the next attempt comes later. A session
//	    that never loses is never delayed, and one that has committed often enough is no longer a rival.
//	admission.AD8 (fairness): A session passes those that queue only if its last transactions took briskTime at most, once in a tick, and
//	    in a place whose owner has been admitted and waits for a processor. So places are doubled at most, those that queue
//	    get each place that becomes free, and a session whose statements take long never passes another.
//
// admission.AD8 keeps a queue from sustaining itself. Thousands of statements of some microseconds each find no place once, when their
// sessions are new. From then on each finds others in the queue, waits there, and is woken for a place whose owner has waited longer for a
// processor than it has worked.
//
// The store. Writes faster than the disk takes them end in stalls of the engine, in which raft and heartbeats stand still
// too. Backlog watches the engine; before it stalls, statements with new data wait before they take latches or locks,
// each for a bounded time, and elastic work stops.
//
// Limits: the gate knows no priorities of users, and a statement that runs keeps its place until it rests.
//
// gate_test.go shows each rule; sim/simcluster has sessions, locks and several nodes.
package admission
