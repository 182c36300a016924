package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"meridian/clock"
)

// all is a message with a field of each kind; it has itself inside.
type all struct {
	u      uint64
	i      int64
	flag   bool
	fixed  uint64
	bytes  []byte
	text   string
	id     [16]byte
	at     clock.Timestamp
	list   [][]byte
	packed []uint64
	enum   uint8
	wall   int64
	texts  []string
	names  []uint32
	counts map[string]int64
	other  string
	in     *all
	keep   Unknown
}

func (a *all) fields(c *Coder) {
	c.Message("wire.all", Skips)
	Uint64(c, 1, &a.u)
	Int64(c, 3, &a.i)
	c.Bool(5, &a.flag)
	c.Fixed64(7, &a.fixed)
	c.Bytes(9, &a.bytes)
	c.String(11, &a.text)
	UUID(c, 13, &a.id)
	c.Timestamp(15, &a.at)
	Keys(c, 17, &a.list)
	c.Packed(19, &a.packed)
	Enum(c, 21, &a.enum, 3)
	c.Sfixed64(25, &a.wall)
	c.Strings(27, &a.texts)
	Numbers(c, 29, &a.names)
	Map(c, 31, &a.counts, func(k *string, n *int64, c *Coder) {
		c.Message("wire.count", Refuses)
		c.String(1, k)
		Int64(c, 3, n)
	})
	As(c, 33, &a.other, func(s string) uint64 { return uint64(len(s)) }, func(n uint64) string { return strings.Repeat("x", int(n&7)) })
	Opt(c, 2001, &a.in, (*all).fields)
	c.Unknown(&a.keep)
}

func appendAll(b []byte, a *all) []byte { return Append(b, a, (*all).fields) }

func decodeAll(b []byte) (*all, error) {
	a := &all{}
	return a, Decode(b, a, (*all).fields)
}

// TestLengths: messages of each length around the sizes of their length's varint are closed rightly, inside others.
func TestLengths(t *testing.T) {
	for _, n := range []int{0, 1, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 1000, 16370, 16376, 16383, 16384, 1 << 21} {
		a := &all{in: &all{in: &all{bytes: bytes.Repeat([]byte{1}, n), u: 7}, u: 8}, keep: Unknown(Uint(nil, 4000, 9))}
		got, err := decodeAll(appendAll([]byte(nil), a))
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if got.keep != a.keep || got.in.u != 8 || got.in.in.u != 7 || !bytes.Equal(got.in.in.bytes, a.in.in.bytes) {
			t.Errorf("%d bytes inside came back otherwise", n)
		}
	}
}

// TestRoom: a message that was expected to be longer or shorter than it is has the same fields.
func TestRoom(t *testing.T) {
	for _, size := range []int{0, 111, 112, 1<<13 - 1, 1 << 13, 1 << 30} {
		for _, n := range []int{0, 1, 127, 128, 16383, 16384, 1 << 21} {
			b, at := BeginLong(nil, 2001, size)
			b, in := BeginLong(b, 9, size)
			b = Uint(End(End(append(b, make([]byte, n)...), in), at), 1, 7)
			got, err := decodeAll(b)
			if err != nil || got.u != 7 || got.in == nil || len(got.in.bytes) != n {
				t.Fatalf("%d for %d bytes: %v", size, n, err)
			}
		}
	}
}

// TestTheUsualBytes: the bytes are those of Protocol Buffers, as its documentation has them.
func TestTheUsualBytes(t *testing.T) {
	for _, c := range []struct{ got, want []byte }{
		{Uint(nil, 1, 150), []byte{0x08, 0x96, 0x01}},
		{String(nil, 2, "testing"), []byte{0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g'}},
		{Int(nil, 1, -2), []byte{0x08, 0x03}},
		{Int(nil, 1, math.MinInt64), []byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
		{Packed(nil, 6, []uint64{3, 270, 86942}), []byte{0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05}},
		{Bool(nil, 16, true), []byte{0x80, 0x01, 0x01}},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%x, want %x", c.got, c.want)
		}
	}
}

// TestRefused: what may not be ignored is refused by name, wherever it is (wire.W1, wire.W2), and what makes no sense is malformed.
func TestRefused(t *testing.T) {
	inside := func(b []byte) []byte { return Element(nil, 2001, b) }
	for _, c := range []struct {
		what string
		b    []byte
		want string
	}{
		{"an odd field", Uint(nil, 23, 1), "does not know field 23"},
		{"one in a message inside", inside(inside(Fixed64(nil, 1<<20+1, 1))), "does not know field 1048577"},
		{"a value of an enumeration", Uint(nil, 21, 4), "field 21 has the value 4"},
		{"a field of a timestamp", Element(nil, 15, Uint(make([]byte, 8), 2, 1)), "clock.Timestamp: this version of Meridian does not know field 2"},
		{"field zero", []byte{0, 1}, "malformed"},
		{"another type", Fixed64(nil, 1, 1), "malformed"},
		{"a group", []byte{24<<3 | 3, 0}, "malformed"},
		{"a length beyond the message's end", inside([]byte{9<<3 | 2, 5, 1}), "malformed"},
		{"a varint beyond the message's end", append(inside([]byte{1 << 3, 0x80}), 1), "malformed"},
		{"a short timestamp", Element(nil, 15, []byte{1}), "malformed"},
		{"a short identity", Element(nil, 13, []byte{1}), "malformed"},
		{"a varint of eleven bytes", append([]byte{1 << 3}, bytes.Repeat([]byte{0xff}, 11)...), "malformed"},
		{"a number of more than 32 bits", Packed(nil, 29, []uint64{1, 1 << 32}), "malformed"},
		{"more than is kept", Element(nil, 24, make([]byte, maxUnknown)), "does not know field 24"},
	} {
		_, err := decodeAll(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.what, err, c.want)
		}
		var later *VersionError
		if errors.Is(err, ErrMalformed) == errors.As(err, &later) {
			t.Errorf("%s: %T", c.what, err)
		}
	}
}

// TestKept: even fields of each type are kept, lists of them too, those in messages inside as well, and what is between them is read.
func TestKept(t *testing.T) {
	later := Element(Element(Uint(Fixed64(nil, 30, 5), 32, 6), 34, []byte("a")), 34, []byte("b"))
	b := append(append([]byte(nil), later...), Uint(nil, 1, 9)...)
	b = Element(Element(b, 36, []byte("c")), 2001, later)
	a, err := decodeAll(b)
	if err != nil || a.u != 9 || a.in == nil || string(a.in.keep) != string(later) || string(a.keep) != string(Element(later, 36, []byte("c"))) {
		t.Fatalf("%+v, %v", a, err)
	}
	again, err := decodeAll(appendAll(nil, a))
	if err != nil || again.keep != a.keep || again.in.keep != a.in.keep {
		t.Fatalf("%+v, %v", again, err)
	}
}

// TestLists: maps are written in the order of their keys, and lists and maps come back as they were; of a key that is there twice, the last value counts.
func TestLists(t *testing.T) {
	a := &all{wall: -5, texts: []string{"", "b"}, names: []uint32{7, 1 << 31}, counts: map[string]int64{"b": 2, "": -1, "a": 0}, other: "xxx"}
	b := appendAll(nil, a)
	for range 8 {
		if again := appendAll(nil, a); !bytes.Equal(b, again) {
			t.Fatalf("%x, and then %x", b, again)
		}
	}
	got, err := decodeAll(append(b, Element(nil, 31, Int(String(nil, 1, "b"), 3, 9))...))
	if a.counts["b"] = 9; err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%+v became %+v, %v", a, got, err)
	}
	if got, err = decodeAll(Element(b, 29, nil)); err != nil || got.names != nil {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestForgottenValue: a codec that does not read a field's value is found at once, and does not read it as a field.
func TestForgottenValue(t *testing.T) {
	r := Read(Uint(nil, 1, 7))
	for m := r.Open("wire.careless"); r.Next(&m); {
	}
	if !errors.Is(r.Err(), ErrMalformed) {
		t.Errorf("error %v", r.Err())
	}
}

// TestJSON: a row that has a member of a later version is refused by name, and not rewritten without it; what is no JSON is malformed.
func TestJSON(t *testing.T) {
	type inner struct{ B int }
	type row struct {
		A  int
		In inner
	}
	var later *VersionError
	for _, c := range []struct {
		text  string
		later bool
		ok    bool
	}{
		{`{"A":1,"In":{"B":2}}`, false, true},
		{`{"A":1}`, false, true},
		{`{"A":1,"C":3}`, true, false},
		{`{"A":1,"In":{"B":2,"D":[{}]}}`, true, false},
		{`{"A":1} {}`, false, false},
		{`{"A":"x"}`, false, false},
		{`{`, false, false},
	} {
		err := JSON([]byte(c.text), "row", &row{})
		if (err == nil) != c.ok || errors.As(err, &later) != c.later {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// FuzzRead: no bytes make the reader panic, and what it accepts it reads the same again (wire.W5).
func FuzzRead(f *testing.F) {
	a := &all{u: 1, i: -5, flag: true, fixed: 6, bytes: []byte{}, text: "t", id: [16]byte{1}, at: clock.Timestamp{Wall: 5, Logical: 6},
		list: [][]byte{{}, {1}}, packed: []uint64{1, 300}, enum: 2, names: []uint32{3}, counts: map[string]int64{"k": 4}, keep: Unknown(Uint(nil, 24, 1))}
	f.Add(appendAll(nil, a))
	a.in = &all{in: &all{u: 8}, bytes: make([]byte, 200)}
	f.Add(appendAll(nil, a))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAll(b)
		if err != nil {
			return
		}
		b = appendAll(nil, a)
		again, err := decodeAll(b)
		if err != nil || !bytes.Equal(b, appendAll(nil, again)) {
			t.Fatalf("%+v became %+v, %v", a, again, err)
		}
	})
}
