package coordinator

import (
	"fmt"
	"testing"

	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// TestManyLocks: of more locks than are remembered one by one it is still known that they are not later than the first, so
// that a write of a later statement does not pass over what has come since (coordinator.CO6).
func TestManyLocks(t *testing.T) {
	x, c := &transaction.Core{}, &Coordinator{}
	x.Init(transaction.Options{ID: kv.TxnID{1}, Gateway: 1, Isolation: kv.ReadCommitted}, reading(10))
	c.Init(x)
	begin := func(s int64) {
		x.BeginStatement()
		c.BeginStatement(reading(s))
	}
	begin(10)
	first := keys.Key("first")
	c.NoteLocked(first)
	begin(20)
	for i := range maxLocked {
		c.NoteLocked(keys.Key(fmt.Sprintf("k%05d", i)))
	}
	begin(30)
	if seen := c.SeenAt(first); seen != at(10) {
		t.Errorf("locked at 10, written as seen at %s", seen)
	}
}
