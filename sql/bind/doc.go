// Package bind gives syntax its meaning: it takes a parsed statement and the catalogue as the session sees it, and
// makes a typed logical tree for the optimizer, or a command struct for every other statement. Only it and package parse know the grammar
// library.
//
//	parse.Statement --Binder.Bind--> *Query            SELECT, INSERT, UPDATE, DELETE, VALUES, some SHOWs
//	                                 *CreateTable, ... definitions, with every name resolved (statement.go)
//	                                 *Begin, ...       commands that need no catalogue, passed on
//
// # Parts
//
// A builder binds one statement. It is made of parts that are types of their own, each with its tests:
//
//	budget     the nesting of the statement, and the memory of the bound tree            budget.go
//	source     the text that is bound now: positions in it, and the role of its rights   source.go
//	names      objects of the catalogue by their names                                   lookup.go
//	findings   dependencies, rights, writes, locks, AS OF SYSTEM TIME                    findings.go
//	level      what one SELECT's expressions contain that runs elsewhere: aggregates,
//	           window functions, set-returning calls; columns of enclosing queries       level.go
//	viewText   the text of a view, written with the meaning of its names and literals    view_text.go
//
// The rest is one part, and in this package, because it is one recursion: expressions have subqueries, queries have expressions and names, a name
// may be a view, which is a query again, and definitions have expressions of all kinds. All functions of the recursion pass scopes on, give types to
// the same parameters and raise errors at positions of the same text. Files divide it by clause and by statement.
//
// # Names
//
// A scope (scope.go) has the names that one FROM clause makes visible, with the scope of the enclosing query as its parent.
// Every SELECT also has a level. A name that is found in an outer scope belongs to an outer level; on the way out it is
// noted in every level that it crosses, and those notes become Subquery.Outer and Join.Lateral. So correlation is known when binding is
// done and is not computed again.
//
//	SELECT (SELECT max(w) FROM u WHERE u.a = t.a) FROM t
//	        level 2, reads t.a ----------------^      level 1
//
// Columns get identities from opt.Metadata where they are produced. USING merges two columns under one name: the name
// stands for an expression, and the parts remain reachable with their qualifiers.
//
// # Types
//
// Literals in quotes, NULL and parameters begin as unknown. Their use decides the type: the registry's overload rules, the other side of a
// comparison, a column to which they are assigned. A parameter is one node for all its uses, so the first use that knows a type determines
// it; one whose type stays undetermined is 42P18. Output columns that stay unknown are text, except below INSERT ... SELECT and set
// operations, which type them in place (selectQuery's keep, retype).
//
// # A SELECT, in order
//
//	FROM         joins, views and common table expressions expanded             from.go, join.go, setops.go
//	WHERE
//	select list, GROUP BY, HAVING, ORDER BY are bound over FROM's columns; aggregates, window functions and
//	             set-returning calls move into the level and leave a column behind       aggregate.go, window.go, set.go
//	group        grouped expressions become columns; ungrouped columns are 42803         group.go
//	windows, sets, projection, DISTINCT, ORDER BY, LIMIT                                 window.go, set.go, select.go, order.go
//
// # Changes
//
// INSERT's input has one column for each column of the table that gets a value. It includes defaults and generated columns,
// also those of columns that a schema change is adding (WriteOnly). A VALUES list becomes rows of
// complete expressions, so a one-row insert is one Values node. CHECK constraints and RETURNING see the row under the
// identities New. UPSERT is a blind write if the statement gives every column, otherwise ON CONFLICT on the primary key.
//
// # Stored text
//
// Defaults, checks, generated columns and views are stored as SQL (scalar.Format writes it, and views have their names
// qualified and their stars expanded). They are parsed once per text and bound when their table is used, with names
// looked up in the table's own database and schema first (source.home), whatever the session's search path is.
//
// # Errors
//
// Messages, codes and positions are PostgreSQL's; testdata/scripts/errors was compared with PostgreSQL 15. Within the package, an
// error is a panic with a bailout that Bind turns into its result; any other panic becomes XX000. Nesting is bounded
// (54001), so that no text can exhaust the stack.
//
// Other packages choose indexes and join orders (opt), enforce NOT NULL and foreign keys (exec), and check
// privileges (the session; Query.Access lists those that the query needs).
package bind
