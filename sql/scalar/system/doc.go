// Package system has the functions that depend on the session, the catalogue or the node: identity of the session, sequences, settings, definitions
// and privileges of objects, sizes, advisory locks, notifications, signals to other sessions.
//
// Package scalar has expressions, and the functions of their values. This package adds its functions to that table: Builtins is the whole one,
// which binder, optimizer and catalogue views share. A function here is a signature, and a call of a method of the statement's Environment;
// package session implements the methods, and package virtual those about the catalogue.
//
// The table is the same in every process, the OIDs of its functions too (TestOIDsStay): pg_proc shows them, and clients keep them.
//
// How it is checked: sql/scalar's tests of all functions (large arguments, constants) run over Builtins; the results of each function are checked
// through sessions, by the scripts of sql/session and test/comparison.
package system
