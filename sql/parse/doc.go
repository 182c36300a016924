// Package parse turns text into statements.
//
// # Two parsers, one front
//
// Queries and data definition go to a grammar library that knows PostgreSQL's dialect and the multi-region
// statements of its descendants; this package and package bind are the only ones that see it, so it can be replaced.
// The statements that control a session (BEGIN, SET, SHOW, PREPARE, COPY, VACUUM, GRANT, ...) are parsed here by hand:
// they are short, clients send them in forms that the library refuses, and BEGIN and COMMIT are hot.
//
//	text --lex--> tokens --split at ;--> one statement's tokens
//	                                       | first word is ours      --> cursor.utility  --> *Begin, *Copy, ...
//	                                       | else rewrite, then the grammar              --> tree.Statement
//
// The lexer (token.go) follows PostgreSQL: nested comments, E” and dollar quotes, operators by its longest-match
// rule. Its errors, and all syntax errors, are PostgreSQL's: 42601, "syntax error at or near", and the position in
// characters in the whole query string.
//
// # Rewrites
//
// Where the library refuses a form that PostgreSQL's clients send, rewrite.go replaces a few tokens before the library
// sees the text: OPERATOR(pg_catalog.~), COLLATE (all text is ordered by its bytes), ONLY, TABLESPACE, ~~ and its
// relatives, OVERRIDING, arguments with names (named.go). The edits are kept, so that positions in the rewritten text map back to the source.
//
// # Long texts
//
// The library reads a statement as a whole: it can't be interrupted, and asks nobody for memory. So the lexer asks (ParseWithin)
// every few thousand tokens and before each statement, for what the library will need by a count of the tokens, and a
// statement has at most MaxTokens of them, which are some two seconds (measure.go).
//
// # Positions
//
// The library's tree has no positions. It does keep names as substrings of its input; Statement.PosOf compares
// addresses to find where a name stood. Names that had to be folded or unquoted are found by looking through the
// tokens again (FindWord). Both happen only when there is an error to report.
//
// Nothing here panics on any input: the library's panics are recovered as XX000.
package parse
