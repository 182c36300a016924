// Package storage is a heading: bytes on one disk. storage/engine is the ordered store, storage/mvcc the versions
// and intents in it.
package storage
