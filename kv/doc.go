// Package kv has the messages between gateways and ranges: requests, batches, results, transactions as requests carry them, and key-level
// errors. It has no behaviour beyond encoding them (codec.go).
package kv
