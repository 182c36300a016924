package replica

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/kv"
)

// BenchmarkCommand is a command of one phase as the log has it: a batch of some rows.
func BenchmarkCommand(b *testing.B) {
	at := clock.Timestamp{Wall: 1_790_000_000_123_456_789}
	c := &Command{id: 1 << 60, maxLeaseIndex: 1000, LeaseSequence: 3, ClosedTimestamp: at, WriteAt: at, Batch: make([]byte, 600),
		Delta: Stats{LiveBytes: 10, TotalBytes: 300, KeyCount: 1, LiveCount: 1, VersionCount: 4}}
	data := c.encode()
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data = c.encode()
		}
		b.ReportMetric(float64(len(data)), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		var d Command
		for b.Loop() {
			d = Command{}
			if err := decodeCommand(data, &d); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMessage has the messages of one write, and a heartbeat.
func BenchmarkMessage(b *testing.B) {
	from, to := kv.ReplicaDescriptor{Node: 1, Store: 1, Replica: 1}, kv.ReplicaDescriptor{Node: 2, Store: 2, Replica: 2}
	raft := func(typ raftpb.MessageType) *raftpb.Message {
		return &raftpb.Message{Type: typ.Enum(), To: new(uint64(2)), From: new(uint64(1)), Term: new(uint64(7)), LogTerm: new(uint64(7)),
			Index: new(uint64(1000)), Commit: new(uint64(1000)), RejectHint: new(uint64(0))}
	}
	app := raft(raftpb.MsgApp)
	app.Entries = []*raftpb.Entry{newEntry(raftpb.EntryNormal, 7, 1001, make([]byte, 650))}
	for _, c := range []struct {
		name string
		m    *raftpb.Message
	}{{"append", app}, {"answer", raft(raftpb.MsgAppResp)}, {"heartbeat", &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(uint64(7)), Commit: new(uint64(1000))}}} {
		m := &Message{Range: 50, From: from, To: to, Raft: c.m}
		data := m.Append(nil)
		b.Run(c.name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data = m.Append(data[:0])
			}
			b.ReportMetric(float64(len(data)), "bytes")
		})
		b.Run(c.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if decodeBench(data) != nil {
					b.Fatal("no message")
				}
			}
		})
	}
}

func decodeBench(b []byte) error {
	_, err := DecodeMessage(b)
	return err
}
