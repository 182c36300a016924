// Package scalar has typed scalar expressions: their trees, their evaluation, and the functions and operators that
// they may call.
//
// # From text to value
//
//	bind                        opt                         exec
//	names, literals  --->  Expr tree  --->  folded Expr  --->  Evaluator over rows
//	        Registry.Resolve...      Fold, Rewrite        Compile(expr, layout)
//
// An Expr is a bound tree: every node knows its type, columns are numbers (ColumnID) that mean something within one
// statement, and operators are overloads chosen from the Registry. Trees are immutable; rewriting shares what does not
// change.
//
//	scalar.S1: An expression's type never changes by rewriting, folding or compiling it.
//	scalar.S2: Folding evaluates only what cannot fail or has not failed: an error stays in the tree and is raised when, and
//	    only if, the row that needs it is evaluated. CASE WHEN x <> 0 THEN 1 / x END is safe.
//	scalar.S3: The text that Format writes parses and binds to an equal expression. Defaults, checks and views are stored so.
//
// # Overload resolution
//
// Resolve follows chapter 10 of PostgreSQL's manual: the exact match; else what implicit casts can reach, and of those
// the one with most exact arguments, then most preferred types, then the best reading of untyped literals (a string if
// possible, else the category all candidates share). Comparisons are not overloads: ResolveCompare brings both sides
// to one family and Compare nodes do the rest, which keeps them transparent to the optimizer.
//
// # Evaluation
//
// Compile makes a tree of small nodes, one interface call each. Conditions are tested in three-valued logic without
// making datums; comparisons of integers with constants, the commonest of all, are one node. A column that the layout
// does not have is an outer column, read from Context.Outer; a subquery is run by Context.Subqueries, with the columns that
// it reads from outside bound first.
//
//	scalar.S4: An Evaluator is immutable. Cached plans share it between sessions; all state is in the Context and the row.
//	scalar.S5: A function sees NULL only if it says CalledOnNull; else any NULL argument makes the result NULL.
//
//	scalar.S6 (I9): The owner of a large value accounts for it, and a call reserves memory before it makes one (memory.go).
//	scalar.S7: A call with large arguments can be cancelled.
//
// A pattern of LIKE or a regular expression (package regex) that is constant is compiled once, with the expression (Overload.Prepare).
// Functions over "any" learn the static types of their arguments when they are compiled (Overload.TypedEval).
//
// # The registry
//
// One table that does not change once it is made, from signatures written as text: "lower(text) text". Each file adds one
// subject: arithmetic.go, decimal.go, strings.go, like.go, regex.go, datetime.go, datetemplate.go, tochar.go, json.go, jsonb.go, array.go,
// aggregate.go. This package knows types and their values. Package system adds the functions that need the session or the catalogue; the
// Environment here has only the methods that casts and random() need. This package reads no clock and draws no random numbers by itself.
//
// # Tests
//
// testdata/*.tsv are some three thousand expressions, written or drawn at random, with the type and text, or the error, that PostgreSQL 15 gave;
// testdata/record.py records them anew. Deliberate departures: text compares by bytes, case conversion follows
// Unicode.
package scalar
