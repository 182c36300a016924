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
//	S1  An expression's type never changes by rewriting, folding or compiling it.
//	S2  Folding evaluates only what cannot fail or has not failed: an error stays in the tree and is raised when, and
//	    only if, the row that needs it is evaluated. CASE WHEN x <> 0 THEN 1 / x END is safe.
//	S3  What Format writes parses and binds to an equal expression. Defaults, checks and views are stored so.
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
// does not have is an outer column, read from Context.Outer; a subquery is run by Context.Env, with the columns that
// it reads from outside bound first.
//
//	S4  An Evaluator is immutable. Cached plans share it between sessions; all state is in the Context and the row.
//	S5  A function sees NULL only if it says CalledOnNull; else any NULL argument makes the result NULL.
//
//	S6  (I9) A large value is accounted for by whoever holds it, and a call asks before it makes one (memory.go).
//	S7  A call with large arguments can be cancelled.
//
// A pattern of LIKE or a regular expression that is constant is compiled once, with the expression (Overload.Prepare).
// Functions over "any" learn the static types of their arguments when they are compiled (Overload.TypedEval).
//
// # The registry
//
// One immutable table, built when first used, from signatures written as text: "lower(text) text". Each file adds one
// subject: arithmetic.go, decimal.go, strings.go, like.go, regex.go, datetime.go, tochar.go, json.go, array.go,
// system.go, aggregate.go. What a function may ask of the world is the Environment; nothing here reads a clock or
// rolls dice by itself.
//
// # How it is checked
//
// testdata/*.tsv are some three thousand expressions, written or drawn at random, with the type and text, or the error, that PostgreSQL 15 gave;
// testdata/record.py records them anew. Where we depart on purpose: regular expressions have no back references or
// look-around, text compares by bytes, case conversion follows Unicode.
package scalar
