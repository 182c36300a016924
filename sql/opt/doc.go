// Package opt chooses how a statement runs. It takes the typed logical tree that package bind makes (logical.go),
// rewrites and explores it in a memo, and returns the cheapest physical plan (physical.go) that package exec runs.
package opt
