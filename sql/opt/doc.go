// Package opt is the optimizer: it takes the typed logical tree that package bind makes and returns the cheapest physical plan that it
// finds, which package exec runs.
//
//	logical.go --build.go--> memo.go --explore.go--> search.go --> physical.go
//	 (bound)     constructors        alternatives     costs          (run)
//
// # The memo
//
// A query is represented as groups of logically equal expressions. An expression is an operator of logical.go whose inputs
// are groups; a group's properties (props.go) are derived from its first expression, the normal form: columns, those
// that are not NULL, those of enclosing queries that it reads, an estimate of its rows, and, on demand, its dependencies: columns that are
// constant, columns that are equal, keys.
//
// # Normal form
//
// Trees are put into the memo from the bottom up by constructors (newSelect, newProject, newJoin, ...), each of which
// applies the rules about its operator and its inputs before it makes a group. There is a file for each idea:
//
//	fold_constants.go    constant expressions are computed; NOT moves inwards; (a AND b) OR (a AND c) is a AND (b OR c)
//	push_filters.go      conditions move as far down as they may; a condition that rejects NULLs makes outer joins inner
//	construct.go         projections merge; DISTINCT over distinct rows is removed
//	infer_constants.go   a.x = b.y and a.x = 1 give b.y = 1
//	join_keys.go         joins on expressions become joins on columns
//	decorrelate.go       queries in scalars become joins, and joins that run once for each row ordinary ones
//	any_array.go         column = ANY (ARRAY (SELECT ...)) becomes a semi join
//	marks.go             queries that are parts of expressions become left joins: a mark, a list or a value
//	prune.go             unused columns are not computed
//
// Each rule has a name (rules.go), and can be switched off: what it makes better is then not made, and the rows are the same.
//
// There is no separate operator for a query that reads columns of an enclosing one: such a query is any group with
// outer columns, and a join whose right side reads columns of the left is an apply.
//
// # Exploration
//
// Alternatives are added to the groups of the normal form:
//
//	reorder_joins.go       all trees of joins, outer and semi joins among them, as far as the operators allow; where there
//	                       are too many, those over the order of a greedy tree
//	explore.go             semi joins as inner joins with distinct values; a right side that groups as an apply; min
//	                       and max as the first row of an order
//	split_disjunction.go   a = 1 OR b = 2 by two indexes
//
// # Search
//
// best (search.go) finds the cheapest plan for a group and required properties: an order, and how many rows will be
// taken. Operators have their implementations there, scans in scan.go and joins in join.go; a sort enforces an order that no implementation
// has. Results are kept, so a group is searched once for each set of properties.
//
// constrain.go turns conditions into spans of an index. Spans hold expressions, not values: a plan is made once and
// run with many parameters, and a lookup join computes its spans for each row of its input. A row whose unique key is fixed is looked up
// without considering alternatives, so the plan of a statement by primary key takes microseconds.
//
// Orders are those of PostgreSQL, and of keys: NULL comes after all values, or first in a descending column. Whether
// one order satisfies another is decided with the group's dependencies (matchOrder): constants don't count, columns
// that are equal stand for one another, and columns behind a key do not matter.
//
// # Costs
//
// The unit is a row read in sequence (cost.go). A plan has a cost until its first row and one until its last; a
// consumer that takes a part of the rows pays in proportion, so LIMIT prefers orders that need no sort. Estimates (stats.go) come from
// collected row and distinct counts, and from defaults without them.
//
// # Promises
//
//	opt.O1: A plan returns the rows that the query as written returns, whatever the statistics. opttest checks it for random queries, with
//	    plans chosen at random, and rules switched off at random.
//	opt.O2: A volatile expression is evaluated where, and as often as, it was written. Other conditions move freely, so a condition that
//	    fails may or may not be evaluated, as in PostgreSQL.
//	opt.O3: Optimize is pure: it reads no clock and draws no random numbers, so equal queries, catalogues and statistics give equal
//	    plans; and it leaves its query as it was.
//
// The order of a subquery's ORDER BY is kept unless an operator above changes it (build.go), though SQL does not promise that: clients rely
// on array_agg over an ordered subquery.
package opt
