// Package plan has the plans of statements, the cache in which the sessions of a node share them, and the account of the memory for
// planning. The session makes plans, and decides when it may use a cached one (sql/session, plan.go).
package plan
