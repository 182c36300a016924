// Package opttest tests the optimizer with SQL: scripts that show plans, and random queries whose optimized plans must
// answer as naive ones do. It has only tests, so that it may import packages above package opt.
package opttest
