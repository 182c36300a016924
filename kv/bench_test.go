package kv

import (
	"fmt"
	"testing"

	"meridian/clock"
	"meridian/keys"
)

// benchBatches are what statements send most: a read by primary key, a transaction of one phase, the writes of a larger one.
func benchBatches() map[string]*Batch {
	at := clock.Timestamp{Wall: 1_790_000_000_123_456_789}
	txn := &Txn{TxnMeta: TxnMeta{ID: TxnID{1, 2}, Anchor: keys.Key("some key of a row"), WriteTimestamp: at, MinTimestamp: at, Seq: 3,
		Priority: 1 << 20, Gateway: 1}, ReadTimestamp: at, UncertaintyLimit: at,
		Observed: []ObservedTimestamp{{1, at}, {2, at}}}
	header := Header{RangeID: 50, Txn: txn, Now: at, Gateway: 1, Generation: 12}
	key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("table 104 row %06d", i)) }
	batches := map[string]*Batch{
		"get":      {Header: header, Requests: []Request{&GetRequest{Key: key(1)}}},
		"scan":     {Header: header, Requests: []Request{&ScanRequest{Start: key(1), End: key(9)}}},
		"onephase": {Header: header},
		"writes":   {Header: header},
	}
	one := batches["onephase"]
	for i := range 4 {
		one.Requests = append(one.Requests, &PutRequest{Key: key(i), Value: make([]byte, 100), Seq: Seq(i + 1)})
	}
	one.Requests = append(one.Requests, &EndTxnRequest{Anchor: key(0), Commit: true, OnePhase: true, LockSpans: []keys.Span{{Start: key(0)}}})
	for i := range 100 {
		batches["writes"].Requests = append(batches["writes"].Requests, &PutRequest{Key: key(i), Value: make([]byte, 200), Seq: Seq(i + 1)})
	}
	return batches
}

func benchReplies() map[string]*BatchResponse {
	at := clock.Timestamp{Wall: 1_790_000_000_123_456_789}
	txn := benchBatches()["get"].Txn
	replies := map[string]*BatchResponse{
		"get":  {Txn: txn, Now: at, Responses: []Response{&GetResponse{Value: make([]byte, 100), Timestamp: at}}},
		"puts": {Txn: txn, Now: at, Responses: []Response{&EmptyResponse{}, &EmptyResponse{}, &EmptyResponse{}}},
		"scan": {Txn: txn, Now: at},
	}
	s := &ScanResponse{}
	for i := range 1000 {
		s.Rows = append(s.Rows, KeyValue{Key: keys.Key(fmt.Sprintf("table 104 row %06d", i)), Value: make([]byte, 100), Timestamp: at})
	}
	replies["scan"].Responses = []Response{s}
	return replies
}

func BenchmarkBatch(b *testing.B) {
	for _, name := range []string{"get", "scan", "onephase", "writes"} {
		batch := benchBatches()[name]
		buf := AppendBatch(nil, batch)
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendBatch(buf[:0], batch)
			}
			b.ReportMetric(float64(len(buf)), "bytes")
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeBatch(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReply(b *testing.B) {
	for _, name := range []string{"get", "puts", "scan"} {
		reply := benchReplies()[name]
		buf := AppendReply(nil, reply, nil)
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendReply(buf[:0], reply, nil)
			}
			b.ReportMetric(float64(len(buf)), "bytes")
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := DecodeReply(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
