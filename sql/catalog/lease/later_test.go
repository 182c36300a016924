//go:build !nextversion

package lease

import (
	"errors"
	"strings"
	"testing"

	"meridian/version"
	"meridian/wire"
)

// TestNextVersion: a table whose descriptor the next version wrote too early is refused by name, and so is not written again without the
// member that this version does not know (lease.L10).
func TestNextVersion(t *testing.T) {
	const text = `{"f":1,"Table":{"MadeBy":"0.2","ID":104,"Version":1,"Name":"t"}}` // TestNextVersion of later_next_test.go writes it
	d, err := decodeDescriptor([]byte(text), version.Built().Own)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.unusable(); !errors.As(err, new(*wire.VersionError)) || !strings.Contains(errors.Unwrap(err).Error(), `"MadeBy"`) {
		t.Errorf("%+v, %v", d, err)
	}
	if text, err := d.encode(); err == nil {
		t.Errorf("it is written again, as %s", text)
	}
}
