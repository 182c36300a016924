// Package sessiontest makes nodes with sessions over a store in memory, for tests of the packages of sql: all code from the statement's
// text down to package txn is the real one; package txn/fakekv replaces the ranges below it.
package sessiontest
