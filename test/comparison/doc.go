// Package comparison runs the same statements on a real PostgreSQL 15 and on Meridian and compares the answers: rows, columns with their
// type OIDs, command tags, and errors by SQLSTATE and words. Where PostgreSQL 15 is not installed, recorded answers take its place.
//
// # A case
//
// A Case is a few statements for one session. A Generator makes cases from a seed, and has some that are always asked; `generators`
// in comparison_test.go lists them all:
//
//	Fixed     cases that once differed, or that an application is known to send; File reads them from testdata
//	Generate  one more, drawn from the dice it is given
//
// A case that needs tables sets Schema: it gets an empty schema of its own, alone on its search_path.
//
// # A round
//
//	PostgreSQL, real time          Meridian, virtual time
//	cases 1..n  --> answers        one node in a synctest bubble: cases 1..n --> answers
//	                      \         /
//	                       compare, and group what differs
//
// The fixed cases always run, and some rounds of generated ones: round k uses seed k, so that every run has the same
// cases. MERIDIAN_COMPARE=1m runs as many more rounds as its time allows. MERIDIAN_SEED=k begins at another round,
// MERIDIAN_GENERATOR=casts runs one generator's cases only. Of the cases that differ in one group the shortest is
// printed. A difference fails the test, unless known_test.go has it with its reason.
//
// Without PostgreSQL, TestRecorded compares with recorded answers of a PostgreSQL 15: testdata/recorded.txt, which has the fixed
// cases and a part of the first round. MERIDIAN_RECORD=1 records them anew, which is needed after a change of the cases in testdata.
//
//	MERIDIAN_STATEMENTS=file go test ./test/comparison -run TestStatements -v
//
// prints both answers to the statements of a file in the form of testdata, where they differ.
//
// # Queries
//
// TestQueries makes tables with random columns, indexes and rows, and runs random queries over them: joins of all kinds, subqueries in all
// places, groups, windows, set operations, with comparisons across types. Each has one right answer, but for the order of rows where it has
// no ORDER BY. Three rounds always run; MERIDIAN_QUERIES=20m goes on for so long, from round MERIDIAN_SEED.
package comparison
