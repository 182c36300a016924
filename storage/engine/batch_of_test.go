package engine

import (
	"strings"
	"testing"

	"meridian/clock"
	"meridian/keys"
)

// TestApplyReprOf: of a batch's changes those of some keys are applied, whatever their kind.
func TestApplyReprOf(t *testing.T) {
	e := openMem(t)
	b := e.NewBatch()
	kept, left := keys.AppliedStateKey(uint64(7)), keys.Key("row")
	b.Put(kept, []byte("kept"))
	b.Put(left, []byte("left"))
	b.PutVersion(left, clock.Timestamp{Wall: 5}, nil, []byte("left"))
	b.PutLock(left, 1, [16]byte{1}, []byte("left"))
	b.Delete(keys.LeaseKey(uint64(7)))
	b.ClearSpan(keys.Span{Start: left, End: left.PrefixEnd()})
	b.ClearSpan(keys.ReplicatedSpan(uint64(8)))
	repr := append([]byte(nil), b.Repr()...)
	_ = b.Close()
	var asked []string
	b = e.NewBatch()
	err := b.ApplyReprOf(repr, func(k keys.Key) bool {
		_, err := keys.DecodeRangeIDKey(k)
		asked = append(asked, string(k))
		return err == nil
	})
	if err != nil || b.Count() != 3 || len(asked) != 7 {
		t.Errorf("%d of %d changes are applied: %v", b.Count(), len(asked), err)
	}
	if strings.Contains(string(b.Repr()), "left") || !strings.Contains(string(b.Repr()), "kept") {
		t.Errorf("the batch is %q", b.Repr())
	}
	if err := b.ApplyReprOf(repr[:len(repr)-3], func(keys.Key) bool { return true }); err == nil {
		t.Error("a batch that ends too early is applied")
	}
	_ = b.Close()
}
