package parse

import (
	"strconv"
	"strings"
)

// Reduction is the precision of a type of time that is more than the six digits that such types have.
type Reduction struct {
	// Type is the type as PostgreSQL's warning has it, TIME(9) WITH TIME ZONE.
	Type string
	// Pos is where the type begins.
	Pos int
}

// reduction reports whether token i is such a precision: timestamp(9), interval second(9).
func reduction(src string, toks []Token, i int) (r Reduction, ok bool) {
	if i < 2 || i+1 >= len(toks) || !isPunct(toks[i-1], src, "(") || !isPunct(toks[i+1], src, ")") || toks[i-2].Kind != Word {
		return r, false
	}
	n, err := strconv.ParseInt(toks[i].Text(src), 10, 32)
	if err != nil || n <= 6 {
		return r, false
	}
	at := i - 2
	name, zone := strings.ToUpper(toks[at].Text(src)), false
	switch name {
	case "TIME", "TIMESTAMP":
		zone = i+4 < len(toks) && isWord(toks[i+2], src, "with") && isWord(toks[i+3], src, "time") && isWord(toks[i+4], src, "zone")
	case "TIMETZ", "TIMESTAMPTZ":
		name, zone = strings.TrimSuffix(name, "TZ"), true
	case "INTERVAL":
	case "SECOND": // interval second(9), interval '...' day to second(9)
		name = "INTERVAL"
		for at--; at >= 0 && !isWord(toks[at], src, "interval"); at-- {
			if i-at > 6 {
				return r, false
			}
		}
		if at < 0 {
			return r, false
		}
	default:
		return r, false
	}
	r.Type = name + "(" + strconv.FormatInt(n, 10) + ")"
	if zone {
		r.Type += " WITH TIME ZONE"
	}
	r.Pos = CharPos(src, int(toks[at].Pos))
	return r, true
}
