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
		if back, err := decodeHello(wire.Append(nil, &h, (*hello).fields)); err != nil || back != h {
			t.Fatalf("%v %+v", err, back)
		}
		e := &StatusError{Code: Code(rapid.Uint16().Draw(t, "code")), Message: rapid.String().Draw(t, "message"), Detail: []byte(rapid.String().Draw(t, "detail"))}
		if back, err := decodeError(wire.Append(nil, e, (*StatusError).fields)); err != nil || back.Code != e.Code || back.Message != e.Message || !bytes.Equal(back.Detail, e.Detail) {
			t.Fatalf("%v %+v", err, back)
		}
	})
}

// TestMessages: what nodes say to each other about their links is as package wire wants it.
func TestMessages(t *testing.T) {
	some := func(l *[]kv.NodeID) {
		for i := range *l {
			(*l)[i] = max((*l)[i], 1)
		}
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("transport.Hello", wiretest.Skips, (*hello).fields, nil),
		wiretest.Declared("transport.Said", wiretest.Skips, said, nil),
		wiretest.Declared("transport.Refuser", wiretest.Skips, (*refuser).fields, nil),
		wiretest.Declared("transport.Error", wiretest.Skips, (*StatusError).fields, nil),
		wiretest.Declared("transport.Waybill", wiretest.Skips, (*waybill).fields, func(w *waybill) { some(&w.hops) }),
		wiretest.Declared("transport.Relayed", wiretest.Skips, (*relayed).fields, nil),
		wiretest.Declared("transport.PathRequest", wiretest.Skips, (*pathRequest).fields, nil),
		wiretest.Declared("transport.Path", wiretest.Skips, (*knownPath).fields, func(p *knownPath) { some(&p.via) }),
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
	f.Add(wire.Append(nil, &StatusError{Message: "m"}, (*StatusError).fields))
	f.Add(wire.Append(nil, &hello{frames: 1}, (*hello).fields))
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
