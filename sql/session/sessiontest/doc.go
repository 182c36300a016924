// Package sessiontest makes nodes with sessions over a store in memory, for tests of the packages of sql: all code from the statement's
// text down to txn is real; below it is txn/fakekv.
package sessiontest
