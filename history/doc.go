// Package history records what clients saw, and has checkers that decide whether a correct database may have shown it.
//
// # The problem
//
// A test that injects faults cannot say what the right answer to a request is: requests run side by side, and some answers are lost
// with their connections. It can decide whether any sequential order of the requests explains all answers. So clients record their
// requests and the answers, and a checker looks for such an order afterwards.
//
//	client 1   |--- write 1 ---|            ok
//	client 2            |--- cas 1 -> 2 ------- ...    no answer: it may take effect at any time after its call, or never
//	client 3                      |-- read --|  2      so the cas did take effect
//
// # Time
//
// Only the order of calls and returns orders requests: an operation that returned before another was
// called comes first. A Registers numbers these moments itself, so that two of them are never equal however coarse the
// clock is; in virtual time thousands of operations share one nanosecond.
//
// # Outcomes
//
//	history.H1: OK: it took effect between call and return, and this is its answer;
//	history.H2: Failed: it never took effect and never will; it is no part of the history;
//	history.H3: Unknown: it took effect at some moment after its call, or not at all. An operation that never returned is one.
//
// If a client records an operation as Failed that may have taken effect, the checker reports errors that are none; if
// it records too many as Unknown, the checker misses errors and is slow.
//
// # Checkers
//
//	Appends     transactions on lists: every cycle of dependencies, by name, from dirty write to write skew
//	Values      transactions on registers: the same, as far as the order of versions is known; lost updates
//	Messages    chains of transactions whose clients told each other: later ones are not seen without earlier ones
//	Stamps      commit timestamps are in the order of time
//	Registers   single keys: read, write, compare-and-set; linearizable (I4), by porcupine's search; by intervals if each
//	            value is written once
//	Rows        statements on single rows, with the counts that clients were told, and reads of a bounded age; by porcupine's search
//	Set         additions of distinct elements: those that were OK exist, those that Failed do not, and no others
//	Counter     increments: none lost, none applied twice
//	Totals      snapshots of a bank: each shows the same sum, and no account below zero
//	Monotonic   a value that only grows does not shrink, neither for one client nor from an answer to a later call
//	Winners     races for one row: one wins, and the row is the winner's
//
// # Cycles
//
// Appends and Values draw a graph: a transaction before the one that replaced its version (ww), read it (wr), or
// replaced what it had read (rw). A cycle is an anomaly, and which edges it has says which (Adya's thesis, 1999). The
// edges become known by Elle's idea (Kingsbury and Alvaro 2020): transactions append to lists, and a list shows all its
// versions in order.
//
//	class          cycle                               forbidden from
//	G0             ww only                             read uncommitted
//	G1a, G1b       (none: an aborted, an intermediate  read committed
//	               version was read)
//	G1c            ww and wr                           read committed
//	G-single       one rw                              repeatable read (snapshot)
//	G-nonadjacent  several rw, none after another      repeatable read (snapshot)
//	G2-item        two rw in succession                serializable
//	...-realtime   needs that one returned before the  strict serializable
//	               other was called
//
// A read AS OF SYSTEM TIME is of the past: it takes part in cycles of values, and in the order of time only if the moment that it shows
// is known. In an externally consistent database a snapshot at t shows exactly what had committed at the moment t, so it
// is recorded with that moment as its call and its return.
//
// Only reads of items give edges: a scan that should have found a new row gives none, unless its rows are lists. A good
// history takes time in proportion to its length. testdata has one history for each class and its near misses.
package history
