// Package parse turns text into statements.
//
// # Two parsers, one front
//
// A grammar library parses queries and data definition, in PostgreSQL's dialect and with the multi-region statements of its descendants;
// only this package and package bind import it, so it can be replaced. The statements that control a session (BEGIN, SET, SHOW, PREPARE,
// COPY, VACUUM, GRANT, ...) have a parser in this package: they are short, clients send them in forms that the library refuses, and BEGIN
// and COMMIT are frequent.
//
//	text --lex--> tokens --split at ;--> one statement's tokens
//	                                       | first word is known     --> cursor.utility  --> *Begin, *Copy, ...
//	                                       | otherwise: rewrite, then the grammar        --> tree.Statement
//
// The lexer (token.go) follows PostgreSQL: nested comments, escape strings (E'...'), dollar quotes, operators by its longest-match
// rule. Its errors, and all syntax errors, are PostgreSQL's: 42601, "syntax error at or near", and the position in
// characters in the whole query string.
//
// # Rewrites
//
// Where the library refuses a form that PostgreSQL's clients send, rewrite.go replaces a few tokens before the library
// sees the text: OPERATOR(pg_catalog.~), COLLATE (all text is ordered by its bytes), ONLY, TABLESPACE, the operators of LIKE (~~),
// OVERRIDING, arguments with names (named.go). The edits are kept, so that positions in the rewritten text map back to the source.
//
// A rewrite must not take one thing for another. So a type is rewritten only where PostgreSQL's grammar has a type and nothing else, which
// typeplace.go finds from the tokens: behind ::, in CAST, before a literal, in the definition of a column. The clauses of CREATE are looked for
// only before the query of a view or of a new table. TestPlacesOfExpressions parses random expressions in each of the places where they
// may stand, and TestStatementsRoundTrip writes the trees of random statements as text and reads them again, as stored texts are.
//
// # Long texts
//
// The library reads a statement as a whole: it can't be interrupted, and reserves no memory. So the lexer reserves it (ParseWithin), every
// few thousand tokens and before each statement, by an estimate from the number of tokens, and a statement has at most MaxTokens of them,
// which the library parses in about two seconds (measure.go).
//
// # Positions
//
// The library's tree has no positions. Its strings are parts of the library's input, or of the buffer into which the library's scanner copies
// folded words, quoted identifiers and string constants one after the other. Places compares addresses to find the token that a name or a
// constant was read from, also where another one has the same text; what has no string of its own (NULL, CASE, an operator) is found from the
// tokens around it (package bind). This happens only when an error is reported.
//
// Nothing here panics on any input: the library's panics are recovered as XX000.
package parse
