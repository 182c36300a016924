// Package sqlstate has PostgreSQL's error codes and the error value that carries one to a client.
//
// SQLSTATE exists only inside package sql: layers below return typed errors, which sql/session/outcome.go translates. The packages of sql
// raise *Error for a user's mistake.
package sqlstate
