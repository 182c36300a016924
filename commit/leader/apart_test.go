package leader

import (
	"testing"

	"meridian/keys"
	"meridian/kv"
)

// TestApart: cleanups of different transactions are independent; two of the same lock or record are not.
func TestApart(t *testing.T) {
	a, b := kv.TxnMeta{ID: kv.TxnID{1}}, kv.TxnMeta{ID: kv.TxnID{2}}
	k, l := keys.Key("k"), keys.Key("l")
	resolve := func(k keys.Key, m kv.TxnMeta) kv.Request { return &kv.ResolveIntentRequest{Key: k, Txn: m} }
	gc := func(m kv.TxnMeta) kv.Request {
		return &kv.GCRequest{Start: k, Records: []keys.Key{keys.TxnKey(k, m.ID)}}
	}
	finish := func(m kv.TxnMeta) kv.Request { return &kv.RecoverTxnRequest{Txn: m} }
	var many []kv.Request
	for i := range 200 {
		m := kv.TxnMeta{ID: kv.TxnID{byte(i), 1}}
		many = append(many, resolve(k, m), resolve(l, m), finish(m))
	}
	for _, c := range []struct {
		name string
		reqs []kv.Request
		want bool
	}{
		{"keys of one transaction", []kv.Request{resolve(k, a), resolve(l, a)}, true},
		{"one key of two", []kv.Request{resolve(k, a), resolve(k, b)}, true},
		{"a lock twice", []kv.Request{resolve(k, a), resolve(l, b), resolve(k, a)}, false},
		{"record and lock", []kv.Request{finish(a), resolve(k, a), gc(b)}, true},
		{"a record twice", []kv.Request{finish(a), gc(a)}, false},
		{"many", many, true},
		{"many, and one twice", append(many[:len(many):len(many)], resolve(k, kv.TxnMeta{ID: kv.TxnID{7, 1}})), false},
		{"garbage", []kv.Request{resolve(k, a), &kv.GCRequest{Start: k, Keys: []kv.GCKey{{Key: k}}}}, false},
		{"a span", []kv.Request{resolve(k, a), &kv.ResolveRangeRequest{Start: k, End: l, Txn: a}}, false},
	} {
		batch := &kv.Batch{Requests: c.reqs}
		q := &call{b: batch, traits: traitsOf(batch)}
		if got := q.apart(); got != c.want {
			t.Errorf("%s: apart %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDivided: a batch of resolutions whose command has become too long is divided before the request that made it so, or
// behind it if that is the first large one; any other batch is not (leader.P19).
func TestDivided(t *testing.T) {
	resolve := func(k string) kv.Request { return &kv.ResolveIntentRequest{Key: keys.Key(k)} }
	three := []kv.Request{resolve("a"), resolve("b"), resolve("c")}
	for _, c := range []struct {
		name      string
		reqs      []kv.Request
		i, before int
		want      int
	}{
		{"the first is large", three, 0, 0, 1},
		{"a large one behind little", three, 1, 100, 2},
		{"a large one behind much", three, 1, resolveBytes / 2, 1},
		{"the last of many", three, 2, resolveBytes, 2},
		{"the last, and large", three, 2, 100, 0},
		{"one", three[:1], 0, 0, 0},
		{"a write among them", []kv.Request{resolve("a"), &kv.PutRequest{}, resolve("b")}, 0, 0, 0},
	} {
		q := &call{b: &kv.Batch{Requests: c.reqs}}
		if got := q.divided(c.i, c.before); got != c.want {
			t.Errorf("%s: divided at %d, want %d", c.name, got, c.want)
		}
	}
}
