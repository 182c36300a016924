// Package comparison asks a real PostgreSQL 15 and Meridian the same and compares what they answer: rows, columns with
// their type OIDs, command tags, and errors by SQLSTATE and words. Where PostgreSQL 15 is not installed, recorded answers take its place.
//
// # A case
//
// A Case is a few statements for one session. A Generator makes cases from a seed, and has some that are always asked; `generators`
// in comparison_test.go lists them all:
//
//	Fixed     cases that once differed, or that an application is known to send; File reads them from testdata
//	Generate  one more, drawn from the dice it is given
//
// A case that needs tables says Schema: it gets an empty schema of its own, alone on its search_path.
//
// # A round
//
//	PostgreSQL, real time          Meridian, virtual time
//	cases 1..n  --> answers        one node in a synctest bubble: cases 1..n --> answers
//	                      \         /
//	                       compare, and group what differs
//
// The fixed cases are always asked, and some rounds of made ones: round k uses seed k, so that every run asks the same.
// MERIDIAN_COMPARE=1m asks as many more rounds as its time allows. MERIDIAN_SEED=k begins at another round,
// MERIDIAN_GENERATOR=casts asks one generator's cases only. Of the cases that differ in one group the shortest is
// printed. A difference fails the test, unless known_test.go has it with its reason.
//
// Without PostgreSQL, TestRecorded compares with what a PostgreSQL 15 answered once: testdata/recorded.txt, which has the fixed
// cases and a part of the first round. MERIDIAN_RECORD=1 asks for the answers anew; a change of the cases in testdata comes with it.
//
//	MERIDIAN_STATEMENTS=file go test ./test/comparison -run TestStatements -v
//
// prints both answers to the statements of a file in the form of testdata, where they differ.
//
// # Queries
//
// TestQueries makes tables with random columns, indexes and rows, and asks random queries over them: joins of all kinds, subqueries in
// all places, groups, windows, set operations, with comparisons across types. Each has one right answer, but for the order of rows where it
// has no ORDER BY. Three rounds are asked always; MERIDIAN_QUERIES=20m goes on for so long, from round MERIDIAN_SEED.
package comparison
