package transport

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/kv"
)

func TestFramesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &frame{
			kind: kind(rapid.IntRange(1, int(kindMax)-1).Draw(t, "kind")), id: rapid.Uint64().Draw(t, "id"),
			at:   clock.Timestamp{Wall: rapid.Int64Min(0).Draw(t, "wall"), Logical: rapid.Uint32().Draw(t, "logical")},
			name: rapid.StringN(-1, -1, 255).Draw(t, "name"),
			// On both sides of copyBytes.
			payload: make([]byte, rapid.SampledFrom([]int{0, 1, copyBytes, copyBytes + 1, 100_000}).Draw(t, "size")),
		}
		bs, err := codec{}.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var got frame
		if err := (codec{}).Unmarshal(bs, &got); err != nil {
			t.Fatal(err)
		}
		bs.Free()
		if got.kind != f.kind || got.id != f.id || got.at != f.at || string(got.got) != f.name || !bytes.Equal(got.payload, f.payload) {
			t.Fatalf("%+v", got)
		}
		h := hello{version: 1, class: ClassBulk, node: kv.NodeID(rapid.Uint32().Draw(t, "node")), cluster: [16]byte{1, 15: 2}}
		if back, err := decodeHello(h.append(nil)); err != nil || back != h {
			t.Fatalf("%v %+v", err, back)
		}
		e := &StatusError{Code: Code(rapid.Uint16().Draw(t, "code")), Message: rapid.String().Draw(t, "message"), Detail: []byte(rapid.String().Draw(t, "detail"))}
		if back, err := decodeError(appendError(nil, e)); err != nil || back.Code != e.Code || back.Message != e.Message || !bytes.Equal(back.Detail, e.Detail) {
			t.Fatalf("%v %+v", err, back)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add((&frame{kind: kindCall, name: "kv.batch"}).appendHeader(nil))
	f.Add(appendError(nil, &StatusError{Message: "m"}))
	f.Add(hello{version: 1}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr frame
		if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &fr); err == nil {
			fr.name = string(fr.got)
			if again := append(fr.appendHeader(nil), fr.payload...); !bytes.Equal(again, b) {
				t.Fatalf("%x became %x", b, again)
			}
		}
		decodeHello(b)
		decodeError(b)
	})
}
