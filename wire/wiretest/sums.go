package wiretest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"meridian/wire"
)

// sums has a hash of what a package's messages are with all of their fields set at random, and of what their readers make of bytes that were changed.
// The golden lines have one field each, so they say nothing of the order of fields or of lengths with leading zeros. A line holds as long as a
// message's Go type has the same fields: a change of the codec alone leaves the file as it is.
//
//	message hash-of-the-fields hash-of-the-bytes hash-of-the-readings
const sums = "testdata/wire.sums"

const sumsHead = `# Hashes of this package's messages with all fields (wire/wiretest/sums.go). A line changes with its message's fields: go test -run TestMessages -update
`

// sum is a message's line, without its name.
func sum[T any](write func([]byte, *T) []byte, decode func([]byte) (*T, error), proper func(*T)) (shape, bytes string) {
	fields, written, read := sha256.New(), sha256.New(), sha256.New()
	for _, s := range samples(reflect.TypeFor[T](), nil) {
		fmt.Fprintln(fields, s.path)
	}
	rng := rand.New(rand.NewPCG(6, 0))
	for range rounds {
		v := new(T)
		fill(rng, reflect.ValueOf(v).Elem(), 0)
		proper(v)
		b := write(nil, v)
		fmt.Fprintf(written, "%x\n", b)
		for range 4 {
			c := mangle(rng, b)
			got, err := decode(c)
			if err == nil {
				fmt.Fprintf(read, "%x\n", write(nil, got))
				continue
			}
			fmt.Fprintln(read, kindOf(err))
		}
	}
	hex := func(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:8]) }
	return hex(fields), hex(written) + " " + hex(read)
}

// kindOf is what a caller can tell of an error.
func kindOf(err error) string {
	var later *wire.VersionError
	if errors.As(err, &later) {
		return fmt.Sprintf("later %s %d %d %v", later.Message, later.Field, later.Value, later.Enum)
	}
	return fmt.Sprint("malformed ", errors.Is(err, wire.ErrMalformed))
}

// mangle cuts bytes off, changes some, moves a part to the front, or leaves them.
func mangle(rng *rand.Rand, b []byte) []byte {
	c := bytes.Clone(b)
	if len(c) == 0 {
		return c
	}
	switch at := rng.IntN(len(c)); rng.IntN(4) {
	case 0:
		c = c[:at]
	case 1:
		c = append(c[at:], c[:at]...)
	case 2:
		c[at] = byte(rng.Uint32())
	default:
		c = append(with(rng, c, 2*rng.Uint32N(40)+2, true), b[at:]...)
	}
	return c
}

// compare compares the messages with their sums.
func compare(t *testing.T, messages []Message) {
	text, err := os.ReadFile(sums)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	have := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 4 && line[0] != '#' {
			have[f[0]] = f[1:]
		}
	}
	now := map[string]string{}
	for i := range messages {
		m := &messages[i]
		shape, bytes := m.sum()
		now[m.Name] = shape + " " + bytes
		switch old := have[m.Name]; {
		case *update:
		case old == nil || old[0] != shape:
			t.Errorf("%s has no line for %s and the fields that it has: go test -run %s -update adds it", sums, m.Name, t.Name())
		case old[1]+" "+old[2] != bytes:
			t.Errorf("%s: the same fields have other bytes, or are read in another way (wire.W4): %s was %s %s and is %s", sums, m.Name, old[1], old[2], bytes)
		}
	}
	if !*update || t.Failed() {
		return
	}
	out := sumsHead
	for _, name := range slices.Sorted(maps.Keys(now)) {
		out += name + " " + now[name] + "\n"
	}
	if err := os.WriteFile(sums, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
