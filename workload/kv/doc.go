// Package kv reads and writes single rows by key.
package kv
