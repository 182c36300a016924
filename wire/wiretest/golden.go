package wiretest

import (
	"encoding/hex"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"meridian/wire"
)

var update = flag.Bool("update", false, "add the lines that testdata/wire.txt lacks; it changes none")

// The bytes of each message of a package are in its testdata/wire.txt: a line for each field that is not zero, with all others zero. So a change of a number or of
// a type fails, also where the writer and the reader agree about it (wire.W4).
//
//	message path-of-the-field hex
//	gone message path-of-the-field hex
//	later message path-of-the-field hex
//
// Lines are added and never changed, once a release has been made with them. If a field is not used any more, its line begins with "gone": its number
// must not mean anything else, so that the reader refuses or ignores the bytes as it does unknown ones. A line that begins with "later" is of a build with
// more features than others of this release (build tag nextversion).
const golden = "testdata/wire.txt"

const goldenHead = `# The bytes of this package's messages, with one field set (wire/wiretest/golden.go). Lines are only added: go test -run TestMessages -update
`

// sample is one way to set one field of a message.
type sample struct {
	path string
	set  func(reflect.Value)
}

// samples lists the fields of a type, and those of what it has inside. The value of each depends on its type alone, so that a new field
// adds samples and changes none.
func samples(typ reflect.Type, above []reflect.Type) (out []sample) {
	for _, t := range above {
		if t == typ {
			return nil
		}
	}
	above = append(above[:len(above):len(above)], typ)
	leaf := func(f func(v reflect.Value)) []sample { return []sample{{"", f}} }
	switch typ.Kind() {
	case reflect.Bool:
		return leaf(func(v reflect.Value) { v.SetBool(true) })
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int, reflect.Int64:
		return leaf(func(v reflect.Value) { v.SetInt(100) })
	case reflect.Uint8:
		return leaf(func(v reflect.Value) { v.SetUint(1) })
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return leaf(func(v reflect.Value) { v.SetUint(300) })
	case reflect.Float64:
		return leaf(func(v reflect.Value) { v.SetFloat(1.5) })
	case reflect.String:
		if typ == reflect.TypeFor[wire.Unknown]() {
			return nil
		}
		return leaf(func(v reflect.Value) { v.SetString("text") })
	case reflect.Array:
		return leaf(func(v reflect.Value) {
			for i := range v.Len() {
				for _, s := range samples(v.Type().Elem(), nil) {
					s.set(v.Index(i))
				}
			}
		})
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return leaf(func(v reflect.Value) { v.SetBytes([]byte{1, 2, 3}) })
		}
		for _, s := range samples(typ.Elem(), above) {
			out = append(out, sample{"[]" + s.path, func(v reflect.Value) {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				s.set(v.Index(0))
			}})
		}
	case reflect.Pointer:
		out = leaf(func(v reflect.Value) { v.Set(reflect.New(v.Type().Elem())) })
		for _, s := range samples(typ.Elem(), above) {
			if s.path == "" { // a pointer to a plain value
				s.path = "*"
			}
			out = append(out, sample{s.path, func(v reflect.Value) {
				v.Set(reflect.New(v.Type().Elem()))
				s.set(v.Elem())
			}})
		}
	case reflect.Map:
		for _, s := range samples(typ.Elem(), above) {
			out = append(out, sample{"[]" + s.path, func(v reflect.Value) {
				k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				for _, s := range samples(k.Type(), nil) {
					s.set(k)
				}
				s.set(e)
				v.Set(reflect.MakeMap(v.Type()))
				v.SetMapIndex(k, e)
			}})
		}
	case reflect.Struct:
		if path := typ.PkgPath(); path != "" && !strings.HasPrefix(path, "meridian/") {
			return nil // another module's: for the test to fill
		}
		for i := range typ.NumField() {
			for _, s := range samples(typ.Field(i).Type, above) {
				out = append(out, sample{"." + typ.Field(i).Name + s.path, func(v reflect.Value) {
					f := v.Field(i)
					if !f.CanSet() { // a field that is not exported
						f = reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
					}
					s.set(f)
				}})
			}
		}
	}
	return out
}

// lines are the golden lines of a message: path and bytes.
func lines[T any](write func([]byte, *T) []byte, proper func(*T)) (out [][2]string) {
	zero := new(T)
	proper(zero)
	none := hex.EncodeToString(write(nil, zero))
	for _, s := range samples(reflect.TypeFor[T](), nil) {
		v := new(T)
		s.set(reflect.ValueOf(v).Elem())
		proper(v)
		if text := hex.EncodeToString(write(nil, v)); text != none { // else the field is not of the message, or proper has changed it
			out = append(out, [2]string{strings.TrimPrefix(s.path, "."), text})
		}
	}
	return out
}

// has reports whether a message has a golden line for a field in this build.
func (m *Message) has(path string) bool {
	return slices.ContainsFunc(m.lines(), func(l [2]string) bool { return l[0] == path })
}

// Values has the golden lines of a message be of these values, by their names, instead of one for each field: for a message that has one of many inside, which
// a type does not tell.
func Values[T any](m Message, write func([]byte, *T) []byte, values map[string]*T) Message {
	m.lines = func() (out [][2]string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			out = append(out, [2]string{name, hex.EncodeToString(write(nil, values[name]))})
		}
		return out
	}
	return m
}

// record compares the messages of a package with its golden lines.
func record(t *testing.T, messages []Message) {
	text, err := os.ReadFile(golden)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	byName := map[string]*Message{}
	for i := range messages {
		byName[messages[i].Name] = &messages[i]
	}
	have, kept := map[string]string{}, map[string][]string{}
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, " ")
		gone, later := f[0] == "gone", f[0] == "later"
		if gone || later {
			f = f[1:]
		}
		bytes, err := hex.DecodeString(f[len(f)-1])
		if len(f) != 3 || err != nil {
			t.Fatalf("%s:%d is not a line of it", golden, n+1)
		}
		m := byName[f[0]]
		switch {
		case later && (m == nil || !m.has(f[1])):
			if m != nil && m.gone(bytes) != nil {
				t.Errorf("%s:%d: field %s is of a later version, and its bytes mean something in this one", golden, n+1, f[1])
			}
		case m == nil && !gone:
			t.Errorf("%s:%d: message %s is not read any more: let the line begin with \"gone\"", golden, n+1, f[0])
		case m != nil && gone:
			if err := m.gone(bytes); err != nil {
				t.Errorf("%s:%d: field %s is gone, and its bytes mean something else now (wire.W4): %v", golden, n+1, f[1], err)
			}
		case m != nil:
			have[f[0]+" "+f[1]] = f[2]
		}
		kept[f[0]] = append(kept[f[0]], line)
	}
	var out strings.Builder
	out.WriteString(goldenHead)
	added := 0
	for i := range messages {
		m := &messages[i]
		for _, l := range m.lines() {
			key := m.Name + " " + l[0]
			want, there := have[key]
			delete(have, key)
			switch {
			case !there:
				added++
				kept[m.Name] = append(kept[m.Name], key+" "+l[1])
				if !*update {
					t.Errorf("%s lacks %s: go test -run %s -update adds it", golden, key, t.Name())
				}
			case want != l[1]:
				// A length may be written with more or fewer leading zeros.
				b, _ := hex.DecodeString(want)
				if got := m.again(b); got != l[1] {
					t.Errorf("%s: the number and the type of a field may not change (wire.W4):\nwere  %s\nare   %s\nread as %s", key, want, l[1], got)
				}
			}
			if b, err := hex.DecodeString(l[1]); err != nil || m.again(b) != l[1] {
				t.Errorf("%s: %s is read and written as %s", key, l[1], m.again(b))
			}
		}
		for _, line := range kept[m.Name] {
			out.WriteString(line + "\n")
		}
		delete(kept, m.Name)
	}
	for key := range have {
		t.Errorf("%s has %s, and there is no such field: if it is not used any more, let the line begin with \"gone\"", golden, key)
	}
	for _, lines := range kept { // of messages that are gone
		for _, line := range lines {
			out.WriteString(line + "\n")
		}
	}
	if *update && added > 0 && !t.Failed() {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Log(strconv.Itoa(added) + " lines added")
	}
}
