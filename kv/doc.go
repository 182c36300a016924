// Package kv has the words that gateways and ranges speak: requests, batches, results, transactions as requests
// carry them, and key-level errors. It has no behaviour beyond encoding itself (codec.go).
package kv
