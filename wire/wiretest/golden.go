package wiretest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"meridian/wire"
)

var (
	update = flag.Bool("update", false, "add the lines that testdata/wire.txt lacks; it changes none")
	change = flag.Bool("change", false, "with -update: change and remove lines of testdata/wire.txt too, of a form that no binary but yours has written")
)

// The bytes of each message of a package are in its testdata/wire.txt: a line for each field that is not zero, with all others zero. So a change of a number or of
// a type fails, also where the writer and the reader agree about it (wire.W4).
//
//	message path-of-the-field hex
//	gone message path-of-the-field hex
//	later message path-of-the-field hex
//
// Lines are added and never changed. If a field is not used any more, its line begins with "gone": its number
// must not mean anything else, so that the reader refuses or ignores the bytes as it does unknown ones. A line that begins with "later" is of a build with
// more features than others of this release (build tag nextversion).
//
// A change of a message together with its line would pass, as would one whose line was deleted. So each line has a pin, a hash of its message and its bytes,
// in a file of its own, and a pin without its line fails (wire.W4). The name of a Go field is not part of it: a field may be renamed. -update pins what it
// adds. Only -update -change takes a pin away, for a form that no release has had; the reviewer sees a deleted line in testdata/wire.pins.
const (
	golden = "testdata/wire.txt"
	pins   = "testdata/wire.pins"
)

const goldenHead = `# The bytes of this package's messages, with one field set (wire/wiretest/golden.go). Lines are only added: go test -run TestMessages -update
`

const pinsHead = `# A hash of each line of wire.txt, which holds for ever (wire/wiretest/golden.go). Lines are only added: go test -run TestMessages -update
`

// pinOf is a line's.
func pinOf(message, bytes string) string {
	h := sha256.Sum256([]byte(message + " " + bytes))
	return hex.EncodeToString(h[:6])
}

// readPins reads the pins as lines, by message and pin.
func readPins() (map[[2]string]string, error) {
	text, err := os.ReadFile(pins)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	out := map[[2]string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q is not a line of it", pins, line)
		}
		out[[2]string{f[0], f[2]}] = line
	}
	return out, nil
}

// pin compares the lines of the golden file, by message, with the pins, and gives the pins that there are then.
func pin(kept map[string][]string) (text string, added int, missing []string, err error) {
	have, err := readPins()
	if err != nil {
		return "", 0, nil, err
	}
	now := map[[2]string]string{} // two lines of a message may have the same bytes, and so one pin
	for name, lines := range kept {
		for _, line := range lines {
			f := strings.Fields(line)
			key := [2]string{name, pinOf(name, f[len(f)-1])}
			switch old, ok := have[key]; {
			case ok:
				now[key] = old
			case now[key] == "":
				added++
				now[key] = name + " " + f[len(f)-2] + " " + key[1]
			}
		}
	}
	for key, line := range have {
		if now[key] == "" {
			missing = append(missing, line)
		}
	}
	slices.Sort(missing)
	return pinsHead + strings.Join(slices.Sorted(maps.Values(now)), "\n") + "\n", added, missing, nil
}

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
			if typ.Field(i).Tag.Get("wire") == "-" { // it is never sent
				continue
			}
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
	added, changed := 0, 0
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
		case m == nil && !gone && *update && *change:
			changed++
			continue
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
				switch got := m.again(b); {
				case got == l[1]:
				case *update && *change:
					changed++
					kept[m.Name][slices.Index(kept[m.Name], key+" "+want)] = key + " " + l[1]
				default:
					t.Errorf("%s: the number and the type of a field may not change (wire.W4):\nwere  %s\nare   %s\nread as %s", key, want, l[1], got)
				}
			}
			if b, err := hex.DecodeString(l[1]); err != nil || m.again(b) != l[1] {
				t.Errorf("%s: %s is read and written as %s", key, l[1], m.again(b))
			}
		}
	}
	for key, bytes := range have {
		if *update && *change {
			name, _, _ := strings.Cut(key, " ")
			changed++
			kept[name] = slices.DeleteFunc(kept[name], func(line string) bool { return line == key+" "+bytes })
			continue
		}
		t.Errorf("%s has %s, and there is no such field: if it is not used any more, let the line begin with \"gone\"", golden, key)
	}
	pinned, unpinned, missing, err := pin(kept)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range missing {
		if !*update || !*change {
			t.Errorf("%s has %q, and %s has no such line any more: bytes that were written stay what they are (wire.W4). Put the line back, with \"gone\" before it if the "+
				"field is not used. If no other binary has ever written it: go test -run %s -update -change", pins, line, golden, t.Name())
		}
	}
	if unpinned > 0 && !*update {
		t.Errorf("%s lacks %d lines of %s: go test -run %s -update adds them", pins, unpinned, golden, t.Name())
	}
	var out strings.Builder
	out.WriteString(goldenHead)
	for i := range messages {
		for _, line := range kept[messages[i].Name] {
			out.WriteString(line + "\n")
		}
		delete(kept, messages[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) { // of messages that are gone
		for _, line := range kept[name] {
			out.WriteString(line + "\n")
		}
	}
	if *update && added+changed+unpinned+len(missing) > 0 && !t.Failed() {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{golden: out.String(), pins: pinned} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d lines added, %d changed or removed; %d pins added, %d removed", added, changed, unpinned, len(missing))
	}
}
