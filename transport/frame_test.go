package transport

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/kv"
	"meridian/version"
	"meridian/wire"
	"meridian/wire/wiretest"
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
		h := hello{frames: 1, class: ClassBulk, node: kv.NodeID(rapid.Uint32().Draw(t, "node")), cluster: [16]byte{1, 15: 2},
			said: version.Said{Binary: version.Binary{Own: version.Version{Major: rapid.Uint16().Draw(t, "own"), Step: 3}, Oldest: version.Version{Minor: 7}},
				Acting: version.Version{Major: 1, Minor: rapid.Uint16().Draw(t, "acting")}}}
		if back, err := decodeHello(h.append(nil)); err != nil || back != h {
			t.Fatalf("%v %+v", err, back)
		}
		e := &StatusError{Code: Code(rapid.Uint16().Draw(t, "code")), Message: rapid.String().Draw(t, "message"), Detail: []byte(rapid.String().Draw(t, "detail"))}
		if back, err := decodeError(appendError(nil, e)); err != nil || back.Code != e.Code || back.Message != e.Message || !bytes.Equal(back.Detail, e.Detail) {
			t.Fatalf("%v %+v", err, back)
		}
	})
}

// TestMessages: what nodes say to each other about their links is as package wire wants it.
func TestMessages(t *testing.T) {
	nodes := func(l *[]kv.NodeID) {
		for i := range *l {
			(*l)[i] = max((*l)[i], 1)
		}
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("transport.Hello", wiretest.Skips, func(b []byte, h *hello) []byte { return h.append(b) }, readHello, nil),
		wiretest.Of("transport.Said", wiretest.Skips, appendSaid, readSaid, nil),
		wiretest.Of("transport.Refuser", wiretest.Skips, func(b []byte, d *refuser) []byte { return d.append(b) }, readRefuser, nil),
		wiretest.Of("transport.Error", wiretest.Skips, appendError, readError, nil),
		wiretest.Of("transport.Waybill", wiretest.Skips, func(b []byte, w *waybill) []byte { return w.append(b) }, readWaybill, func(w *waybill) { nodes(&w.hops) }),
		wiretest.Of("transport.Relayed", wiretest.Skips, func(b []byte, a *relayed) []byte { return a.append(b) }, readRelayed, nil),
		wiretest.Of("transport.PathRequest", wiretest.Skips, func(b []byte, q *pathRequest) []byte { return q.append(b) }, readPathRequest, nil),
		wiretest.Of("transport.Path", wiretest.Skips, func(b []byte, p *knownPath) []byte { return p.append(b) }, readPath, func(p *knownPath) { nodes(&p.via) }),
	})
}

// TestUnknownFrame: a kind of frame of a later version is refused by its number.
func TestUnknownFrame(t *testing.T) {
	b := (&frame{kind: kindMax}).appendHeader(nil)
	var later *wire.VersionError
	if err := new(frame).decode(b); !errors.As(err, &later) || later.Value != uint64(kindMax) {
		t.Fatalf("%v", err)
	}
	if err := new(frame).decode(append([]byte{0}, b[1:]...)); !errors.Is(err, errFrame) {
		t.Fatalf("%v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add((&frame{kind: kindCall, name: "kv.batch"}).appendHeader(nil))
	f.Add(appendError(nil, &StatusError{Message: "m"}))
	f.Add((&hello{frames: 1}).append(nil))
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
