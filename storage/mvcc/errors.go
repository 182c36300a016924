package mvcc

import "errors"

var (
	errBadValue = errors.New("mvcc: malformed value")
	errBadLock  = errors.New("mvcc: malformed lock table entry")
	// ErrNotOnePhase is what a one-phase write answers if the transaction has an intent on the key already: the
	// transaction has to commit in the ordinary way.
	ErrNotOnePhase = errors.New("mvcc: the transaction has already written this key")
	// ErrNotInPlace is what a resolution in place answers if a version would have to change.
	ErrNotInPlace = errors.New("mvcc: the intent is not where its transaction committed")
	// ErrNotAnInteger is what Add answers if the key's value is not eight bytes.
	ErrNotAnInteger = errors.New("mvcc: the value is not an eight-byte integer")
)
