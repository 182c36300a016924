// Package pgwire is the server's side of PostgreSQL's frontend/backend protocol 3.0, on one connection.
//
// The problem: thousands of clients, most of them idle, some of them broken or hostile, all of whom expect exactly
// PostgreSQL's behaviour. The idea: one goroutine for each connection reads a message, calls its session.Session and writes into one output
// buffer; a query never changes goroutines.
//
//	client -> [frame reader] -> conn.run --> session.Session -> results -> [output buffer] -> client
//	            bounds            |                                            |
//	            every length      +-- startup.go: TLS, SCRAM, cancel           +-- flushed when full,
//	                              +-- conn.go: Parse Bind Describe ...             at Sync and at Flush
//	                              +-- copy.go: COPY both ways
//
// Rules:
//
//	pgwire.W1: no length that a client sends is trusted: a frame is read in pieces, and refused (08P01) beyond the limit;
//	pgwire.W2: after an error in the extended protocol every message up to Sync is skipped, as PostgreSQL does;
//	pgwire.W3: no part of a statement's result is sent before its transaction's outcome is known, unless the output
//	    buffer is full or the client asks for it with Flush: until then session may rewind and retry (CRDB'20 §3.4);
//	    an error is sent immediately, since the client may wait for it before it sends Sync;
//	pgwire.W4: an unauthenticated connection costs at most MaxStartup bytes and StartupTimeout of time, and there are at most
//	    MaxStarting of them: the oldest makes room for the newest;
//	pgwire.W5: a CancelRequest is honoured only with the secret that was given to that connection;
//	pgwire.W6: the part of a result that has been sent is not sent again when its statement runs again, and the rest only if the first part
//	    has the same bytes;
//	pgwire.W7: after some failures, attempts to log in as one role from one source are served one by one, with growing delays, in bounded memory
//	    (throttle.go);
//	pgwire.W8: neither the messages before the proof nor their timing depend on whether a role exists;
//	pgwire.W9: a server that drains ends a session between its transactions only, until the drain's time is over (drain.go);
//	pgwire.W10: a client that has closed its connection is noticed while its statement runs (watch.go).
//
// This package reads frames and messages without a library: they are on the path of every query, and each length is bounded
// (docs/decisions/0003). Its tests use jackc/pgx, lib/pq and pgproto3 as clients.
package pgwire
