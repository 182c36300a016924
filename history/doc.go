// Package history is what clients saw, and checkers that say whether a database may have let them see it.
//
// # The problem
//
// A test that injects faults cannot say what the right answer to a request is: requests run side by side, and some
// answers are lost with their connections. What it can say is whether there is any order of the requests, one after
// the other, that explains all answers. So clients record what they asked and what they heard, and a checker looks for
// such an order afterwards.
//
//	client 1   |--- write 1 ---|            ok
//	client 2            |--- cas 1 -> 2 ------- ...    no answer: it may take effect at any time after its call, or never
//	client 3                      |-- read --|  2      so the cas did take effect
//
// # Time
//
// What orders requests is the order of calls and returns, nothing else: an operation that returned before another was
// called comes first. A Registers numbers these moments itself, so that two of them are never equal however coarse the
// clock is; in virtual time thousands of operations share one nanosecond.
//
// # Outcomes
//
//	H1  OK: it took effect between call and return, and this is its answer;
//	H2  Failed: it never took effect and never will; it is no part of the history;
//	H3  Unknown: it took effect at some moment after its call, or not at all. An operation that never returned is one.
//
// A client that calls something Failed that may have taken effect makes the checker cry wolf; one that calls too much
// Unknown makes it blind and slow.
//
// # Checkers
//
//	Registers   single keys: read, write, compare-and-set; linearizable (I4), by porcupine's search
//	Set         additions of distinct elements: what was OK is there, what Failed is not, nothing else is
//	Counter     increments: none lost, none applied twice
//	Totals      snapshots of a bank: each shows the same sum, and no account below zero
//	Monotonic   a value that only grows does not shrink, neither for one client nor from an answer to a later call
//
// Cycles over several keys are to come.
package history
