// Package charset converts between UTF-8, in which the database keeps all text, and the encodings that clients speak
// (client_encoding).
//
// The problem: a program of another age speaks LATIN1 or Shift-JIS, and PostgreSQL's server converts for it, both ways, and refuses
// what has no equivalent. The idea: one Charset for each encoding that golang.org/x/text has, under PostgreSQL's names and their
// many spellings. UTF8 and SQL_ASCII have no Charset: nothing is converted, and the connection pays nothing.
//
//	client's bytes --Decode--> UTF-8 --> parser, parameters, COPY
//	client's bytes <--Encode-- UTF-8 <-- rows, column names, errors, COPY
//
// Rules:
//
//	CS1  what has no equivalent is an error (22P05), and what is no character of the encoding too (22021): no text is changed silently;
//	CS2  an error's own text is always delivered: there, a character without equivalent becomes a question mark.
package charset
