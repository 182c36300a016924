package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"meridian/keys"
	"meridian/kv"
)

// TestAnswersAreBounded: a range does not gather more for one answer than kv.AnswerBytes, but for one value (I9).
func TestAnswersAreBounded(t *testing.T) {
	ctx := context.Background()
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		p := c.ps[0]
		value := bytes.Repeat([]byte("x"), kv.AnswerBytes*2/5)
		key := func(i int) keys.Key { return keys.Key(fmt.Sprint("k", i)) }
		for i := range 4 {
			if _, err := p.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: key(i), Value: value}}}); err != nil {
				t.Fatal(err)
			}
		}
		now := c.o.Clock.Now()
		txn := &kv.Txn{ReadTimestamp: now}
		txn.ID[0] = 1
		txn.WriteTimestamp, txn.MinTimestamp = now, now
		gets := func(n int) (out []kv.Request) {
			for i := range n {
				out = append(out, &kv.GetRequest{Key: key(i)})
			}
			return out
		}
		scan := func(reverse bool) []kv.Request {
			return []kv.Request{&kv.ScanRequest{Start: key(0), End: key(9), Reverse: reverse}}
		}
		for _, x := range []struct {
			name     string
			requests []kv.Request
			header   kv.Header
			refused  bool
		}{
			{name: "one", requests: gets(1)},
			{name: "two", requests: gets(2)},
			{name: "three", requests: gets(3), refused: true},
			{name: "all", requests: scan(false), refused: true},
			{name: "all, backwards", requests: scan(true), refused: true},
			{name: "a page", requests: scan(false), header: kv.Header{TargetBytes: 1 << 20}},
			{name: "a page, backwards", requests: scan(true), header: kv.Header{TargetBytes: 1 << 20}},
			{name: "a short span and more", requests: append(gets(2), &kv.ScanRequest{Start: key(2), End: key(4)}), refused: true},
		} {
			b := &kv.Batch{Header: x.header, Requests: x.requests}
			b.Txn = txn
			r, err := p.Send(ctx, b)
			var e *kv.AnswerTooLargeError
			if errors.As(err, &e) != x.refused || err != nil && !x.refused {
				t.Errorf("%s: %v", x.name, err)
				continue
			}
			if x.header.TargetBytes > 0 {
				if s := r.Responses[0].(*kv.ScanResponse); len(s.Rows) != 1 || s.Resume == nil {
					t.Errorf("%s: %d rows, the rest is %v", x.name, len(s.Rows), s.Resume)
				}
			}
		}
	})
}
