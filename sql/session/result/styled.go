package result

import (
	"meridian/sql/charset"
	"meridian/sql/types"
)

// Styled is what a Results has whose client sees text.
type Styled interface {
	// SetStyle says how values are written from now on, and in which encoding; nil is UTF-8.
	SetStyle(*types.Style, *charset.Charset)
	// SetNotices says which notices are sent.
	SetNotices(shows func(severity string) bool)
}
