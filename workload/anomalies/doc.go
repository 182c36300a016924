// Package anomalies looks for anomalies that a level of isolation forbids: clients run small transactions that would
// show every known one, record their requests and the answers, and package history judges these.
//
//	lists     append to lists, and read them: every cycle, from dirty write to write skew   (history.Appends)
//	values    read and replace registers: lost updates, and cycles                          (history.Values)
//	fork      write one key, read two: long forks                                           (history.Values)
//	register  read, write, compare-and-set of one row: linearizable at every level          (history.Registers)
//	bank      read two balances, write both; audits: the sum                                (history.Totals)
//	counter   read, add one, write: no lost update                                          (history.Counter)
//	monotonic increments in the server, and reads: never backwards, at every level          (history.Monotonic)
//	unique    many insert one name, which is UNIQUE: one wins, at every level               (history.Winners)
//	race      many check whether a name exists and insert it if not: one wins               (history.Winners)
//	skew      of two on call one may leave: never both                                      (rows at the end)
//
// All of it is plain PostgreSQL, so that the same program that finds nothing in Meridian can be seen to find something:
// PostgreSQL at READ COMMITTED fails and at SERIALIZABLE passes (`make anomalies`).
//
// The history is kept in memory; a run is minutes, not days.
package anomalies
