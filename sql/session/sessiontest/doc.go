// Package sessiontest makes nodes with sessions over a store in memory, for tests of the rooms of sql: everything from
// the statement's text down to txn is real, what is below is txn/fakekv.
package sessiontest
