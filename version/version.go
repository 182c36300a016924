package version

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version of a cluster, or of what a binary can do. Zero is none.
type Version struct {
	Major, Minor uint16
	// Step counts what came after release Major.Minor; zero is the release itself.
	Step uint16
}

// Compare orders versions: negative if v is the earlier one.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Step, o.Step))
}

// Less reports whether v is earlier than o.
func (v Version) Less(o Version) bool { return v.Compare(o) < 0 }

// Max is the later one.
func (v Version) Max(o Version) Version {
	if v.Less(o) {
		return o
	}
	return v
}

// IsZero reports whether there is no version.
func (v Version) IsZero() bool { return v == Version{} }

// String is 1.2, or 1.2-3 for its third step; empty for none.
func (v Version) String() string {
	switch {
	case v.IsZero():
		return ""
	case v.Step == 0:
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d-%d", v.Major, v.Minor, v.Step)
}

// SyntaxError says that a text is no version.
type SyntaxError struct{ Text string }

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%q is not a version, such as 1.2 or 1.2-3", e.Text)
}

// Parse reads what String wrote.
func Parse(text string) (v Version, err error) {
	if text == "" {
		return v, nil
	}
	release, step, steps := strings.Cut(text, "-")
	major, minor, ok := strings.Cut(release, ".")
	number := func(s string) uint16 {
		n, err := strconv.ParseUint(s, 10, 16)
		ok = ok && err == nil
		return uint16(n)
	}
	v.Major, v.Minor = number(major), number(minor)
	if steps {
		v.Step = number(step)
	}
	if !ok || v.String() != text {
		return Version{}, &SyntaxError{text}
	}
	return v, nil
}

// Uint64 is the version as a number, which orders as Compare does; From reads it.
func (v Version) Uint64() uint64 {
	return uint64(v.Major)<<32 | uint64(v.Minor)<<16 | uint64(v.Step)
}

// From is the version of a number that Uint64 made.
func From(n uint64) Version { return Version{uint16(n >> 32), uint16(n >> 16), uint16(n)} }

// MarshalText implements encoding.TextMarshaler.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Version) UnmarshalText(text []byte) (err error) {
	*v, err = Parse(string(text))
	return err
}
