// Package admission decides which work a node begins when it has more than it can do.
//
// The problem. A node with a thousand clients that all want to run at once does less than one with ten: transactions that
// hold locks wait for a processor behind others that come to wait for these locks; waiters push, refresh and run again; and
// each client waits by luck. Turned away at the door and let in one by one, the same clients get the throughput of ten,
// and each the same wait.
//
// The idea. A session asks the node's Gate before it begins to work on what its client has sent, and says when it rests.
// As long as fewer sessions run than the limit, asking is an atomic addition. Beyond it they queue:
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
// A statement of a transaction that may hold locks is a holder: it never waits, since others wait for it. A statement of a
// transaction that has begun, and holds none yet, is open and goes before those that begin one, which are fresh. A session
// whose last transactions waited for locks, or which is new and has not shown that it does not, belongs to the crowd when
// it begins one: of the crowd only so many transactions are under way at once as keep the locks that they want busy.
// Other sessions do not notice. While a session waits for a lock, somebody else has its place.
//
// A session whose transactions have lost conflicts (40001, or a second run of statements whose answers the client has) belongs to
// the rivals when it begins one. Where every transaction reads what the others write, all but one of those that overlap
// are in vain; so the rivals' limit follows the share of their transactions that is lost, down to one at a time.
//
// The limits follow what is measured while somebody queues, every tick: how late the runtime gives a goroutine a processor
// and how much of the machine idles (Options.Load), and which part of the crowd waits for locks. A limit grows while processors idle, so that a thousand
// sessions which wait for another continent, or sleep, are in nobody's way.
//
//	AD1 (liveness) A session that may hold locks is never queued. So what is running never waits for what is queued.
//	AD2 (liveness) While somebody queues, either someone leaves, or the limits grow. So admission is late at
//	    worst, whatever the admitted wait for: a lock whose holder sleeps, a client, another node.
//	AD3 (fairness) Within a class sessions are admitted in the order in which they came, but for AD8, and a session has one place at most.
//	    One in freshShare admissions is for sessions that begin, whoever has begun.
//	AD4 A session that is cancelled, or whose time is over, leaves the queue at once.
//	AD5 (I9) What keeps a node alive asks nobody: liveness heartbeats, raft, leases, closed timestamps, pushes, the end of
//	    transactions. The gate stands before sessions of clients, at their own node; requests that arrive from other nodes
//	    were admitted there, so they are not admitted twice, and two nodes can't wait for each other.
//	AD6 Elastic work waits before each piece while clients queue or processors are late, but no longer than elasticMax: it
//	    comes last, and comes.
//	AD7 (I9) Work that is going to be in vain is not begun: the rivals' limit shrinks while more than a quarter of their transactions
//	    is lost, and grows, one by one, while few are. A try that went wrong is made less often from then on. A session that
//	    never loses is never held back, and one that wins for long is no rival any more.
//	AD8 (fairness) A session passes those that queue only if its last transactions took briskTime at most, once in a tick, and
//	    in a place whose owner has been admitted and waits for a processor. So places are doubled at most, those that queue
//	    get each place that becomes free, and a session whose statements take long passes nobody.
//
// AD8 keeps a queue from living on its own. Thousands of statements of some microseconds each find no room once, when their
// sessions are new. From then on each finds others in the queue, stands there, and is woken for a place that has been
// taken for longer by its owner's way to a processor than by its work.
//
// The store. Writes faster than the disk takes them end in stalls of the engine, in which raft and heartbeats stand still
// too. Backlog watches the engine; before it stalls, statements that bring new data wait before they take latches or locks,
// each for a bounded time, and elastic work stops.
//
// Limits: the gate knows no priorities of users, and a statement that runs keeps its place until it rests.
//
// gate_test.go shows each rule; sim/simcluster has sessions, locks and several nodes.
package admission
