package result

import (
	"meridian/sql/charset"
	"meridian/sql/types"
)

// Styled is implemented by a Results that writes values as text.
type Styled interface {
	// SetStyle sets the style of values from now on, and their encoding; nil is UTF-8.
	SetStyle(*types.Style, *charset.Charset)
	// SetNotices selects the notices that are sent, by their severity.
	SetNotices(shows func(severity string) bool)
}
