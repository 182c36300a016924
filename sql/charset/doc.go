// Package charset converts between UTF-8, in which the database keeps all text, and the encodings of clients (client_encoding).
//
// The problem: an old program uses LATIN1 or Shift-JIS, and PostgreSQL's server converts for it, both ways, and refuses characters without
// an equivalent. The idea: one Charset for each encoding that golang.org/x/text has, under PostgreSQL's names and their many spellings.
// UTF8 and SQL_ASCII have no Charset: nothing is converted, and the connection pays nothing.
//
//	client's bytes --Decode--> UTF-8 --> parser, parameters, COPY
//	client's bytes <--Encode-- UTF-8 <-- rows, column names, errors, COPY
//
// Rules:
//
//	charset.CS1: a character without an equivalent is an error (22P05), and so are bytes that are no character of the encoding (22021): no
//	    text is changed silently;
//	charset.CS2: an error message is always delivered: there, a character without an equivalent becomes a question mark.
package charset
