package types

import "strings"

// tokenKind is what the text of a date, a time or an interval is cut into, before any of it has a meaning.
type tokenKind byte

const (
	tokenNumber tokenKind = iota // digits, perhaps with a point
	tokenWord                    // letters
	tokenDate                    // digits and letters with separators: a date, a zone's name, or a time with a zone
	tokenClock                   // digits and colons
	tokenZone                    // a sign and digits
	tokenSigned                  // a sign and letters
)

type token struct {
	kind tokenKind
	text string // in small letters
}

// The bounds of a text: tokens, and the bytes of all of them with an end each.
const (
	maxTokens        = 25
	maxStampBytes    = 128 + maxTokens
	maxIntervalBytes = 256
)

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isPunct(c byte) bool {
	return c > ' ' && c < 0x7f && !isDigit(c) && !isAlpha(c)
}
func isAlnum(c byte) bool { return isDigit(c) || isAlpha(c) }

// span is the length of the prefix of s whose bytes are all in.
func span(s string, in func(c byte) bool) int {
	i := 0
	for i < len(s) && in(s[i]) {
		i++
	}
	return i
}

// lexStamp cuts a text into tokens, as PostgreSQL does; ok is false if it has others, or too many. Punctuation between tokens separates.
func lexStamp(s string, limit int) (out []token, ok bool) {
	used := 0
	for s != "" {
		c := s[0]
		if isSpace(c) {
			s = s[1:]
			continue
		}
		t := token{}
		n := 0
		switch {
		case isDigit(c):
			t.kind, n = lexDigits(s)
		case c == '.':
			n = 1 + span(s[1:], isDigit)
		case isAlpha(c):
			t.kind, n = lexWord(s)
		case c == '+' || c == '-':
			rest := s[1:]
			blank := span(rest, isSpace)
			if rest = rest[blank:]; rest == "" {
				return nil, false
			}
			switch {
			case isDigit(rest[0]):
				t.kind, n = tokenZone, span(rest, func(c byte) bool { return isDigit(c) || c == ':' || c == '.' || c == '-' })
			case isAlpha(rest[0]):
				t.kind, n = tokenSigned, span(rest, isAlpha)
			default:
				return nil, false
			}
			t.text = string(c) + strings.ToLower(rest[:n])
			n += 1 + blank
		case isPunct(c):
			s = s[1:]
			continue
		default:
			return nil, false
		}
		if t.text == "" {
			t.text = strings.ToLower(s[:n])
		}
		if used += len(t.text) + 1; len(out) == maxTokens || used > limit {
			return nil, false
		}
		out = append(out, t)
		s = s[n:]
	}
	return out, true
}

// lexDigits is the kind and length of a token that begins with a digit.
func lexDigits(s string) (tokenKind, int) {
	n := span(s, isDigit)
	if n == len(s) {
		return tokenNumber, n
	}
	switch sep := s[n]; sep {
	case ':':
		return tokenClock, n + span(s[n:], func(c byte) bool { return isDigit(c) || c == ':' || c == '.' })
	case '-', '/', '.':
		n++
		if n == len(s) || !isDigit(s[n]) {
			return tokenDate, n + span(s[n:], func(c byte) bool { return isAlnum(c) || c == sep })
		}
		kind := tokenDate
		if sep == '.' {
			kind = tokenNumber
		}
		n += span(s[n:], isDigit)
		if n < len(s) && s[n] == sep {
			kind = tokenDate
			n += span(s[n:], func(c byte) bool { return isDigit(c) || c == sep })
		}
		return kind, n
	}
	return tokenNumber, n
}

// lexWord is the kind and length of a token that begins with a letter.
func lexWord(s string) (tokenKind, int) {
	n := span(s, isAlpha)
	if n == len(s) {
		return tokenWord, n
	}
	switch c := s[n]; {
	case c == '-' || c == '/' || c == '.':
	case c == '+' || isDigit(c):
		// A POSIX zone, unless the word has a meaning of its own, as in Jan08.
		if w := lookupDateWord(strings.ToLower(s[:n])); w.kind != wordUnknown {
			return tokenWord, n
		}
	default:
		return tokenWord, n
	}
	return tokenDate, n + span(s[n:], func(c byte) bool {
		return isAlnum(c) || c == '+' || c == '-' || c == '/' || c == '_' || c == '.' || c == ':'
	})
}

// wholeNumber reads the integer at the front of s as strtol does, and what follows; over is set if it is no int32.
func wholeNumber(s string) (n int64, rest string, over bool) {
	n, rest, over = wholeNumber64(s)
	return n, rest, over || n != int64(int32(n))
}

// wholeNumber64 is wholeNumber for an int64.
func wholeNumber64(s string) (n int64, rest string, over bool) {
	i, negative := 0, false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		i = 1
	}
	if i == len(s) || !isDigit(s[i]) {
		return 0, s, false
	}
	for ; i < len(s) && isDigit(s[i]); i++ {
		// Summed below zero, where the least number is.
		d := int64(s[i] - '0')
		if n < (minInt64+d)/10 {
			over = true
			n = minInt64
			continue
		}
		n = n*10 - d
	}
	if !negative {
		if n == minInt64 {
			return maxInt64, s[i:], true
		}
		n = -n
	}
	return n, s[i:], over
}

const (
	minInt64 = -1 << 63
	maxInt64 = 1<<63 - 1
)
