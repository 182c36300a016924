//go:build nextversion

package campaign_test

import (
	"fmt"

	"meridian/version"
)

// misused says which features a node has used that its binary does not have. The build knows them all; a binary of the
// earlier version would have refused, or ignored, the features that this build counts.
func misused(h *version.Handle, b version.Binary) error {
	for _, f := range []version.Feature{version.NextField, version.NextCommand, version.NextDescriptor} {
		written, read := h.Uses(f)
		if b.Own.Less(f.Since()) && (written > 0 || read > 0) {
			return fmt.Errorf("version.CV2: the binary has version %s, and has written %d times and read %d times what %q of %s brings", b.Own, written, read, f, f.Since())
		}
	}
	return nil
}
