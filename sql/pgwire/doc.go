// Package pgwire is PostgreSQL on one connection: frontend/backend protocol 3.0, byte by byte.
//
// The problem: thousands of clients, most of them idle, some of them broken or hostile, all of whom expect exactly
// PostgreSQL's behaviour. The idea: one goroutine for each connection reads a message, hands it to its
// session.Session on the same goroutine and writes into one output buffer; nothing is handed to another goroutine
// on the way of a query.
//
//	client -> [frame reader] -> conn.loop -> session.Session -> results -> [output buffer] -> client
//	            bounds            |                                            |
//	            every length      +-- startup.go: TLS, SCRAM, cancel           +-- flushed when full,
//	                              +-- conn.go: Parse Bind Describe ...             at Sync and at Flush
//	                              +-- copy.go: COPY both ways
//
// Rules:
//
//	W1  no length that a client sends is trusted: a frame is read in pieces, and refused (08P01) beyond the limit;
//	W2  after an error in the extended protocol every message up to Sync is skipped, as PostgreSQL does;
//	W3  nothing of a statement's result is sent before its transaction's outcome is known, unless the output
//	    buffer is full or the client asks for it with Flush: until then session may rewind and retry (CRDB'20 §3.4);
//	    an error is sent at once, since the client may wait for it before it sends Sync;
//	W4  an unauthenticated connection costs at most MaxStartup bytes and StartupTimeout of time, and there are at most
//	    MaxStarting of them: the oldest makes room for the newest;
//	W5  a CancelRequest is honoured only with the secret that was given to that connection;
//	W6  what has been sent of a statement that runs again is not sent again, and what follows only if the same bytes
//	    have come so far;
//	W7  guesses of a role's password from one source take turns, ever longer ones, in bounded memory (throttle.go);
//	W8  nothing that is sent before the proof, and no time that it takes, depends on whether a role exists;
//	W9  a server that drains tells a client to go between its transactions only, until the time for that is over (drain.go);
//	W10 a client that has closed its connection is noticed while its statement runs (watch.go).
//
// Frames and messages are read here and not by a library: they are on the path of every query, and each length is
// bounded (docs/decisions). Tests speak to it with jackc/pgx, lib/pq and pgproto3.
package pgwire
