package route

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// TestFanCodec: the bytes of joined batches and answers are those of earlier versions, and come back; a part that is not understood is counted, and a field that is not
// known is refused.
func TestFanCodec(t *testing.T) {
	put := func(n int) *kv.Batch {
		return &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: keys.Key("key"), Value: make([]byte, n)}}}
	}
	batches := appendBatches(nil, []*kv.Batch{put(5), put(300), put(20_000)})
	replies := appendReplies(nil, []*kv.BatchResponse{{Responses: []kv.Response{&kv.GetResponse{Value: make([]byte, 300)}}}, nil},
		[]error{nil, &kv.InternalError{Message: "no"}})
	for _, x := range []struct {
		name, want string
		b          []byte
	}{{"batches", "a9ec350c475f22b4", batches}, {"replies", "9971da5c146924bd", replies}} {
		if sum := sha256.Sum256(x.b); hex.EncodeToString(sum[:8]) != x.want {
			t.Errorf("%s: the bytes have the hash %x, and had %s", x.name, sum[:8], x.want)
		}
	}
	bs, err := decodeBatches(batches)
	if err != nil || len(bs) != 3 || string(appendBatches(nil, bs)) != string(batches) {
		t.Fatal(len(bs), err)
	}
	rs, errs, err := decodeReplies(replies)
	if err != nil || len(rs) != 2 || string(appendReplies(nil, rs, errs)) != string(replies) {
		t.Fatal(len(rs), err)
	}
	later := wire.Element(nil, 1, wire.Bool(nil, 9001, true))
	var unknown *wire.VersionError
	if bs, err := decodeBatches(append(later, batches...)); len(bs) != 4 || !errors.As(err, &unknown) || unknown.Message != "kv.Batch" {
		t.Fatal(len(bs), err)
	}
	if _, _, err := decodeReplies(append(later, replies...)); !errors.As(err, &unknown) || unknown.Message != "kv.Reply" {
		t.Fatal(err)
	}
	for _, field := range []uint32{2, 3} {
		if bs, err := decodeBatches(wire.Bool(batches, field, true)); len(bs) != 3 || !errors.As(err, &unknown) || unknown.Message != "route.Batches" {
			t.Fatal(len(bs), err)
		}
		if rs, _, err := decodeReplies(wire.Bool(replies, field, true)); len(rs) != 2 || !errors.As(err, &unknown) || unknown.Message != "route.Replies" {
			t.Fatal(len(rs), err)
		}
	}
}
