// Package wiretest checks the messages of a package: that each field survives, that unknown fields are treated as package wire
// says, that no bytes do harm, that the bytes of a release stay what they are, and that no message of the package was left out.
package wiretest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"meridian/wire"
)

// Treatment is what the reader of a message does with even fields that it does not know.
type Treatment int

const (
	// Skips: they are lost.
	Skips Treatment = iota
	// Keeps: they are written again (wire.W3).
	Keeps
	// Refuses: all of the message has to be understood.
	Refuses
)

// Message is one message of a package.
type Message struct {
	// Name is what its reader calls it.
	Name  string
	Even  Treatment
	check func(*testing.T, *Message)
	lines func() [][2]string
	sum   func() (shape, bytes string)
	// again writes what it reads, and gone says whether bytes mean something.
	again func([]byte) string
	gone  func([]byte) error
}

// Of describes a message: by the function that appends its fields, and the one that reads them. Proper, if not nil, makes a
// random value one that there may be.
func Of[T any](name string, even Treatment, write func([]byte, *T) []byte, read func(*wire.Reader, *T), proper func(*T)) Message {
	if proper == nil {
		proper = func(*T) {}
	}
	decode := func(b []byte) (*T, error) {
		v := new(T)
		r := wire.Read(b)
		read(&r, v)
		return v, r.Err()
	}
	return Message{Name: name, Even: even,
		check: func(t *testing.T, m *Message) { check(t, m, write, decode, proper) },
		lines: func() [][2]string { return lines(write, proper) },
		sum:   func() (string, string) { return sum(write, decode, proper) },
		again: func(b []byte) string {
			v, err := decode(b)
			if err != nil {
				return err.Error()
			}
			return hex.EncodeToString(write(nil, v))
		},
		gone: func(b []byte) error {
			v, err := decode(b)
			var later *wire.VersionError
			if zero := new(T); errors.As(err, &later) || err == nil && reflect.DeepEqual(v, zero) {
				return nil
			}
			return fmt.Errorf("read as %+v, %v", *v, err)
		}}
}

// Declared describes a message by the one function that names its fields.
func Declared[T any](name string, even Treatment, fields func(*T, *wire.Coder), proper func(*T)) Message {
	return Of(name, even,
		func(b []byte, v *T) []byte { return wire.Append(b, v, fields) },
		func(r *wire.Reader, v *T) { wire.In(r, v, fields) }, proper)
}

// Run checks the messages, and that they are all that the package's own files open.
func Run(t *testing.T, messages []Message) {
	seen := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if seen[m.Name] {
			t.Errorf("%s is here twice", m.Name)
		}
		seen[m.Name] = true
		t.Run(m.Name, func(t *testing.T) { m.check(t, m) })
	}
	for name, at := range opened(t) {
		if !seen[name] {
			t.Errorf("%s: message %s is not in the test's list", at, name)
		}
		delete(seen, name)
	}
	for name := range seen {
		t.Errorf("no file of the package opens a message %s", name)
	}
	t.Run("golden", func(t *testing.T) { record(t, messages) })
	if !later {
		t.Run("sums", func(t *testing.T) { compare(t, messages) })
	}
}

// opened finds the messages that the files of the present folder have, by the calls of wire.Coder.Message and wire.Reader.Open.
func opened(t *testing.T) map[string]string {
	files := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !imports(f, "meridian/wire") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !(sel.Sel.Name == "Open" && len(call.Args) == 1 || sel.Sel.Name == "Message" && len(call.Args) == 2) {
				return true
			}
			at := files.Position(call.Pos()).String()
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			name, _ := strconv.Unquote(lit.Value)
			names[name] = at
			return true
		})
	}
	return names
}

func imports(f *ast.File, path string) bool {
	for _, i := range f.Imports {
		if i.Path.Value == strconv.Quote(path) {
			return true
		}
	}
	return false
}

// rounds is how many random values of a message are tried.
const rounds = 300

func check[T any](t *testing.T, msg *Message, write func([]byte, *T) []byte, decode func([]byte) (*T, error), proper func(*T)) {
	rng := rand.New(rand.NewPCG(1, uint64(len(msg.Name))))
	same := func(what string, v *T) []byte {
		b := write(nil, v)
		got, err := decode(b)
		if err != nil {
			t.Fatalf("%s: %v: %+v is %x", what, err, *v, b)
		}
		if !reflect.DeepEqual(v, got) {
			t.Fatalf("%s:\nwritten %+v\nread    %+v", what, *v, *got)
		}
		return b
	}
	zero := new(T)
	proper(zero)
	same("the zero value", zero)

	// Each field alone: the codec may not take it from, or leave it to, another one.
	for _, path := range fields(reflect.TypeFor[T](), nil) {
		v := new(T)
		f := reflect.ValueOf(v).Elem().FieldByIndex(path)
		for try := 0; f.IsZero() && try < 100; try++ {
			fill(rng, f, 0)
		}
		proper(v)
		same("only "+reflect.TypeFor[T]().FieldByIndex(path).Name, v)
	}

	for range rounds {
		v := new(T)
		fill(rng, reflect.ValueOf(v).Elem(), 0)
		proper(v)
		b := same("random", v)

		// Unknown fields, before and after the known ones.
		for _, after := range []bool{false, true} {
			even, odd := with(rng, b, 1<<20, after), with(rng, b, 1<<20+1, after)
			_, err := decode(odd)
			mustRefuse(t, msg.Name, err, 1<<20+1)
			got, err := decode(even)
			switch msg.Even {
			case Refuses:
				mustRefuse(t, msg.Name, err, 1<<20)
			case Skips:
				if err != nil || !reflect.DeepEqual(v, got) {
					t.Fatalf("with an unknown even field: %v\nwritten %+v\nread    %+v", err, *v, *got)
				}
			case Keeps:
				if err != nil {
					t.Fatal(err)
				}
				if again := write(nil, got); len(again) != len(even) || after && string(again) != string(even) {
					t.Fatalf("an unknown even field was not kept:\nread    %x\nwritten %x", even, again)
				}
			}
		}

		// For any truncated or changed input the reader terminates, and a message that it accepts can be written again.
		for range 4 {
			c := append([]byte(nil), b...)
			if len(c) > 0 && rng.IntN(2) == 0 {
				c = c[:rng.IntN(len(c))]
			}
			for range rng.IntN(3) {
				if len(c) > 0 {
					c[rng.IntN(len(c))] = byte(rng.Uint32())
				}
			}
			if got, err := decode(c); err == nil {
				if _, err := decode(write(nil, got)); err != nil {
					t.Fatalf("%x was accepted as %+v, which can't be read again: %v", c, *got, err)
				}
			}
		}
	}
	frugal(t, decode)
}

func mustRefuse(t *testing.T, name string, err error, field uint32) {
	t.Helper()
	var v *wire.VersionError
	if !errors.As(err, &v) || v.Message != name || v.Field != field {
		t.Fatalf("unknown field %d: %v, want a version error of %s", field, err, name)
	}
}

// with adds a field of some type to an encoded message.
func with(rng *rand.Rand, b []byte, field uint32, after bool) []byte {
	var f []byte
	switch rng.IntN(3) {
	case 0:
		f = wire.Uint(nil, field, 77)
	case 1:
		f = wire.Fixed64(nil, field, 77)
	case 2:
		f = wire.String(nil, field, "of a later version")
	}
	if after {
		return append(append([]byte(nil), b...), f...)
	}
	return append(f, b...)
}

// frugal reads bytes that promise more than they have, and bytes that are many small elements.
func frugal[T any](t *testing.T, decode func([]byte) (*T, error)) {
	const size = 1 << 12
	for field := uint32(1); field < 64; field++ {
		for kind, element := range [][]byte{wire.Element(nil, field, nil), wire.Element(nil, field, []byte{10, 0}), wire.Bool(nil, field, true)} {
			var b []byte
			for len(b) < size {
				b = append(b, element...)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			decode(b)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 256*size {
				t.Fatalf("field %d, kind %d: %d bytes made the reader allocate %d", field, kind, len(b), got)
			}
		}
		lie := append(wire.Element(nil, field, nil)[:len(wire.Element(nil, field, nil))-1], 0xff, 0xff, 0xff, 0xff, 0x7f)
		if _, err := decode(lie); err == nil {
			t.Fatalf("field %d: a length beyond the end was accepted", field)
		}
	}
}

// fields lists the paths of all fields of a struct; those of structs in it that are embedded too.
func fields(typ reflect.Type, at []int) (paths [][]int) {
	if typ.Kind() != reflect.Struct {
		return nil
	}
	for i := range typ.NumField() {
		f, path := typ.Field(i), append(append([]int(nil), at...), i)
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			paths = append(paths, fields(f.Type, path)...)
		case f.Type != reflect.TypeFor[wire.Unknown]():
			paths = append(paths, path)
		}
	}
	return paths
}

// fill sets a value at random: all that the type has, so that a field that the codec forgets is found. Enumerations get one of their first two values.
func fill(rng *rand.Rand, v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[wire.Unknown]() {
		return
	}
	if !v.CanSet() { // a field that is not exported
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int, reflect.Int64:
		v.SetInt(int64(rng.Uint64()) >> (64 - v.Type().Bits()) >> rng.IntN(v.Type().Bits()))
	case reflect.Uint8:
		v.SetUint(uint64(rng.IntN(2)))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rng.Uint64() >> (64 - v.Type().Bits()) >> rng.IntN(v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(rng.NormFloat64())
	case reflect.String:
		v.SetString(strings.Repeat("x", rng.IntN(200)*rng.IntN(2)))
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), depth)
		}
	case reflect.Slice:
		n := rng.IntN(4)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if n > 0 {
				b := make([]byte, []int{0, 5, 130}[n-1])
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				v.SetBytes(b)
			}
			return
		}
		if n == 0 || depth > 4 {
			return // an empty list is not told from nil
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			fill(rng, s.Index(i), depth+1)
			if e := s.Index(i); e.Kind() == reflect.Slice && e.IsNil() {
				e.Set(reflect.MakeSlice(e.Type(), 0, 0)) // nor is a nil element from an empty one
			}
		}
		v.Set(s)
	case reflect.Pointer:
		if depth > 4 || rng.IntN(2) == 0 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem(), depth+1)
	case reflect.Struct:
		if path := v.Type().PkgPath(); path != "" && !strings.HasPrefix(path, "meridian/") {
			return // another module's: for the test to fill
		}
		for i := range v.NumField() {
			fill(rng, v.Field(i), depth+1)
		}
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for range rng.IntN(3) {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(rng, k, depth+1)
			fill(rng, e, depth+1)
			m.SetMapIndex(k, e)
		}
		if m.Len() > 0 {
			v.Set(m)
		}
	case reflect.Interface, reflect.Func:
	default:
		panic(fmt.Sprintf("wiretest: can't draw a %s", v.Type()))
	}
}

// Fill sets a value at random, for tests of the package's own.
func Fill(rng *rand.Rand, v any) { fill(rng, reflect.ValueOf(v).Elem(), 0) }
