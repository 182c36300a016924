package leader

import (
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// TestUse: TRUNCATE and DROP have to work while even deletions have no room (I9), so nothing of the catalogue counts, be it
// put, counted up or deleted.
func TestUse(t *testing.T) {
	row, catalogue := keys.TableKey(uint32(16384)), keys.TableKey(uint32(3))
	for _, x := range []struct {
		requests []kv.Request
		want     replica.Use
	}{
		{[]kv.Request{&kv.PutRequest{Key: row}}, replica.Adds},
		{[]kv.Request{&kv.DeleteRequest{Key: row}, &kv.EndTxnRequest{}}, replica.Removes},
		{[]kv.Request{&kv.DeleteRequest{Key: row}, &kv.CPutRequest{Key: row}}, replica.Adds},
		{[]kv.Request{&kv.PutRequest{Key: catalogue}, &kv.EndTxnRequest{}}, replica.Settles},
		{[]kv.Request{&kv.DeleteRequest{Key: catalogue}, &kv.AddRequest{Key: catalogue}}, replica.Settles},
		{[]kv.Request{&kv.EndTxnRequest{}}, replica.Settles},
		{[]kv.Request{&kv.ClearRequest{Start: row, End: keys.Max}}, replica.Settles},
	} {
		if got := useOf(&kv.Batch{Requests: x.requests}); got != x.want {
			t.Errorf("%T...: %d, want %d", x.requests[0], got, x.want)
		}
	}
}
