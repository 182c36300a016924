// Package system has the functions that ask the session, the catalogue or the node: who is connected, sequences, settings, definitions and privileges of
// objects, sizes, advisory locks, notifications, signals to other sessions.
//
// Package scalar has expressions, and the functions of their values. This package adds to its table what it does not know: Builtins is the whole
// table, which binder, optimizer and catalogue views share. A function here is a signature, and a question to the Environment of the
// statement's Context; package session answers it, and package virtual those that are about the catalogue. Nothing here knows how.
//
// The table is the same in every process, the OIDs of its functions too (TestOIDsStay): pg_proc shows them, and clients keep them.
//
// How it is checked: sql/scalar's tests of all functions (large arguments, constants) run over Builtins; what each function answers is asked through
// sessions, by the scripts of sql/session and test/comparison.
package system
