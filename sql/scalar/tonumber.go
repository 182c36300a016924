package scalar

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// numPart is a part of a number's template: a pattern, or text that is copied.
type numPart struct {
	pattern numPattern
	text    string
}

type numPattern byte

const (
	numText numPattern = iota
	numNine
	numZero
	numPoint
	numComma
	numGroup
	numCurrency
	numMinus
	numPlus
	numSign
	numRoman
	numRomanLower
	numOrdinal
	numOrdinalLower
	numOther // a pattern that prints nothing by itself
)

// numTemplate is a number's template (to_char, to_number) with what its patterns say together.
type numTemplate struct {
	parts     []numPart
	pre, post int // digits before and behind the point
	multi     int // digits behind V
	// zeroStart and zeroEnd count digits up to the first and the last 0; zero: there is none.
	zeroStart, zeroEnd int
	point, zero, blank, fill, bracket, minus, plus, roman, v, exp,
	s, // the sign is that of pattern S
	sBehind bool
	preSign int // digits before S
}

func numTemplateError(format string, args ...any) error {
	return sqlstate.New(sqlstate.SyntaxError, format, args...)
}

// parseNumTemplate reads a template. Patterns stand in upper or in lower case, not in both.
func parseNumTemplate(f string) (*numTemplate, error) {
	n := &numTemplate{}
	for i := 0; i < len(f); {
		name := numKeyword(f[i:])
		if name != "" {
			p, err := n.add(strings.ToUpper(name), name)
			if err != nil {
				return nil, err
			}
			n.parts = append(n.parts, numPart{p, ""})
			i += len(name)
			continue
		}
		copied := func(w int) {
			n.parts = append(n.parts, numPart{numText, f[i : i+w]})
			i += w
		}
		switch {
		case f[i] == '"':
			for i++; i < len(f); {
				if f[i] == '"' {
					i++
					break
				}
				if f[i] == '\\' && i+1 < len(f) {
					i++
				}
				_, w := utf8.DecodeRuneInString(f[i:])
				copied(w)
			}
		default:
			if f[i] == '\\' && i+1 < len(f) && f[i+1] == '"' {
				i++
			}
			_, w := utf8.DecodeRuneInString(f[i:])
			copied(w)
		}
	}
	return n, nil
}

// numKeyword is the pattern that a text begins with; empty: none.
func numKeyword(s string) string {
	for _, k := range []string{"EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", ",", ".", "0", "9", "B", "C", "D", "G", "L", "S", "V"} {
		if strings.HasPrefix(s, k) || strings.HasPrefix(s, strings.ToLower(k)) {
			return s[:len(k)]
		}
	}
	return ""
}

// add notes a pattern's effect on the whole.
func (n *numTemplate) add(key, spelled string) (numPattern, error) {
	if n.exp && key != "EEEE" {
		return 0, numTemplateError("\"EEEE\" must be the last pattern used")
	}
	together := func(other string) error { return numTemplateError("cannot use \"S\" and %s together", other) }
	lower := key != spelled
	switch key {
	case "9":
		if n.bracket {
			return 0, numTemplateError("\"9\" must be ahead of \"PR\"")
		}
		switch {
		case n.v:
			n.multi++
		case n.point:
			n.post++
		default:
			n.pre++
		}
		return numNine, nil
	case "0":
		if n.bracket {
			return 0, numTemplateError("\"0\" must be ahead of \"PR\"")
		}
		if !n.zero && !n.point {
			n.zero, n.zeroStart = true, n.pre+1
		}
		if n.point {
			n.post++
		} else {
			n.pre++
		}
		n.zeroEnd = n.pre + n.post
		return numZero, nil
	case "B":
		n.blank = n.blank || n.pre == 0 && n.post == 0 && !n.zero
	case ".", "D":
		if n.point {
			return 0, numTemplateError("multiple decimal points")
		}
		if n.v {
			return 0, numTemplateError("cannot use \"V\" and decimal point together")
		}
		n.point = true
		return numPoint, nil
	case ",":
		return numComma, nil
	case "G":
		return numGroup, nil
	case "L":
		return numCurrency, nil
	case "FM":
		n.fill = true
	case "S":
		if n.s {
			return 0, numTemplateError("cannot use \"S\" twice")
		}
		if n.plus || n.minus || n.bracket {
			return 0, together("\"PL\"/\"MI\"/\"SG\"/\"PR\"")
		}
		n.s, n.sBehind, n.preSign = true, n.point, n.pre
	case "MI", "PL", "SG":
		if n.s {
			return 0, together(`"` + key + `"`)
		}
		n.minus = n.minus || key != "PL"
		n.plus = n.plus || key != "MI"
		return map[string]numPattern{"MI": numMinus, "PL": numPlus, "SG": numSign}[key], nil
	case "PR":
		if n.s || n.plus || n.minus {
			return 0, numTemplateError("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together")
		}
		n.bracket = true
	case "RN":
		n.roman = true
		if lower {
			return numRomanLower, nil
		}
		return numRoman, nil
	case "TH":
		if lower {
			return numOrdinalLower, nil
		}
		return numOrdinal, nil
	case "V":
		if n.point {
			return 0, numTemplateError("cannot use \"V\" and decimal point together")
		}
		n.v = true
	case "EEEE":
		if n.exp {
			return 0, numTemplateError("cannot use \"EEEE\" twice")
		}
		if n.blank || n.fill || n.s || n.bracket || n.minus || n.plus || n.roman || n.v {
			return 0, sqlstate.New(sqlstate.SyntaxError, "\"EEEE\" is incompatible with other formats").
				WithDetail("\"EEEE\" may only be used together with digit and decimal point patterns.")
		}
		n.exp = true
	}
	return numOther, nil
}

func toRoman(v int64) string {
	if v < 1 || v > 3999 {
		return strings.Repeat("#", 15)
	}
	var b strings.Builder
	for _, r := range []struct {
		n int64
		s string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"},
		{5, "V"}, {4, "IV"}, {1, "I"}} {
		for v >= r.n {
			b.WriteString(r.s)
			v -= r.n
		}
	}
	return b.String()
}

// formatNumber is to_char of a number: its type decides how many digits it has.
func formatNumber(d types.Datum, t *types.T, format string) (types.Datum, error) {
	if format == "" {
		return str("")
	}
	n, err := parseNumTemplate(format)
	if err != nil {
		return types.Null, err
	}
	if n.roman {
		to := types.Int4
		if t.Kind == types.KindFloat4 || t.Kind == types.KindFloat8 {
			d = types.NewFloat(math.RoundToEven(d.Float()))
			if f := d.Float(); math.IsNaN(f) || f < 1 || f > 3999 {
				return n.write(toRoman(0), '+', 0)
			}
		}
		v, err := types.Cast(types.Env{}, d, t, to, false)
		if err != nil {
			return types.Null, err
		}
		return n.write(toRoman(v.Int()), '+', 0)
	}
	var s string
	switch t.Kind {
	case types.KindFloat4, types.KindFloat8:
		f := d.Float()
		if n.exp {
			return str(exponentFloat(f, n))
		}
		s = n.floatDigits(f, t.Kind == types.KindFloat4)
	default:
		x, err := types.Cast(types.Env{}, d, t, types.Decimal, false)
		if err != nil {
			return types.Null, err
		}
		if n.exp {
			if t.Kind == types.KindInt4 {
				return str(exponentFloat(float64(d.Int()), n))
			}
			return str(exponentDecimal(x.Decimal(), n))
		}
		if s, err = n.decimalDigits(x, t); err != nil {
			return types.Null, err
		}
	}
	sign := byte('+')
	if strings.HasPrefix(s, "-") {
		sign, s = '-', s[1:]
	}
	whole, _, _ := strings.Cut(s, ".")
	if len(whole) > n.pre {
		s = strings.Repeat("#", n.pre) + "." + strings.Repeat("#", n.post)
	}
	return n.write(s, sign, max(n.pre-len(whole), 0))
}

// decimalDigits is a number with the digits that the template has behind the point.
func (n *numTemplate) decimalDigits(d types.Datum, t *types.T) (string, error) {
	x := d.Decimal()
	if n.v {
		if x.Form == apd.Finite {
			y := *x
			y.Exponent += int32(n.multi)
			var err error
			if x, err = types.NormalizeDecimal(&y); err != nil {
				return "", err
			}
		}
		switch t.Kind {
		case types.KindInt4: // PostgreSQL multiplies without a look at overflow
			scale := int32(math.MinInt32)
			if n.multi < 10 {
				scale = int32(math.Pow(10, float64(n.multi)))
			}
			v, _ := types.DecimalToInt(d.Decimal())
			x = apd.New(int64(int32(v)*scale), 0)
		case types.KindInt8:
			if _, err := types.Cast(types.Env{}, types.NewDecimal(x), types.Decimal, t, false); err != nil {
				return "", err
			}
		}
		n.pre += n.multi
	}
	if x.Form == apd.Finite {
		x = types.RoundDecimal(x, int32(n.post))
	}
	return string(types.AppendDecimal(nil, x)), nil
}

// floatDigits is decimalDigits of a floating-point number, which has no more digits than its type keeps.
func (n *numTemplate) floatDigits(f float64, single bool) string {
	most := 15
	if single {
		most = 6
	}
	if n.v {
		scale := math.Pow(10, float64(n.multi))
		if single {
			f = float64(float32(f) * float32(scale))
		} else {
			f *= scale
		}
		n.pre += n.multi
	}
	text := func(f float64, digits int) string {
		switch {
		case math.IsNaN(f):
			return "NaN"
		case math.IsInf(f, 1):
			return "Infinity"
		case math.IsInf(f, -1):
			return "-Infinity"
		}
		return strconv.FormatFloat(f, 'f', digits, 64)
	}
	if whole := len(text(math.Abs(f), 0)); whole >= most {
		n.post = 0
	} else {
		n.post = min(n.post, most-whole)
	}
	return text(f, n.post)
}

func exponentHashes(n *numTemplate) string {
	return " " + strings.Repeat("#", n.pre) + "." + strings.Repeat("#", n.post+4)
}

func exponentFloat(f float64, n *numTemplate) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return exponentHashes(n)
	}
	s := strconv.FormatFloat(f, 'e', n.post, 64)
	if s[0] != '-' {
		s = " " + s
	}
	return s
}

func exponentDecimal(x *apd.Decimal, n *numTemplate) string {
	if x.Form != apd.Finite {
		return exponentHashes(n)
	}
	digits := x.Coeff.String()
	exp := len(digits) - 1 + int(x.Exponent)
	if x.Coeff.Sign() == 0 {
		exp = 0
	}
	m := *x
	m.Exponent = -int32(len(digits) - 1)
	r := types.RoundDecimal(&m, int32(n.post))
	s := string(types.AppendDecimal(nil, r))
	s += fmt.Sprintf("e%+03d", exp)
	if !strings.HasPrefix(s, "-") {
		s = " " + s
	}
	return s
}

// numWriter writes a number by a template.
type numWriter struct {
	*numTemplate
	out    bytes.Buffer
	number string // digits, with a point or without one
	at     int    // the place in number
	sign   byte
	spaces int // places of the template before the number's first digit
	// relevant is the place of the last digit (or of the point) that a filled template keeps; -1: there is none.
	relevant   int
	signDone   bool
	last       int // the number of the last digit's place
	place      int
	inNumber   bool
	signBefore bool
	// end is where the template has a digit or a point, and the number has none: PostgreSQL ends its text there. -1: nowhere.
	end int
	err error
}

// write writes a number's digits by the template. The places of the template are counted, not those of the number: PostgreSQL's rules on signs and
// brackets, in all their oddity, are about them.
func (n *numTemplate) write(number string, sign byte, spaces int) (types.Datum, error) {
	w := &numWriter{numTemplate: n, number: number, sign: sign, spaces: spaces, relevant: -1, end: -1}
	if n.roman {
		*n = numTemplate{parts: n.parts, fill: n.fill, roman: true}
		w.sign = 0
	}
	if n.zeroStart > 0 {
		n.zeroStart--
	}
	if n.plus || n.minus {
		w.signDone = !(n.plus && !n.minus)
	} else {
		if sign != '-' && n.bracket && n.fill {
			n.bracket = false
		}
		w.signDone = sign == '+' && n.fill && !n.s
		w.signBefore = n.s && !n.sBehind && n.pre != n.preSign
	}
	w.last = n.post + n.pre - 1
	if n.fill && n.point {
		w.relevant = lastRelevant(number)
		if w.relevant >= 0 && n.zeroEnd > spaces {
			w.relevant = max(w.relevant, min(len(number)-1, n.zeroEnd-spaces))
		}
	}
	if !w.signDone && spaces == 0 {
		w.last++
	}
	for _, p := range n.parts {
		if w.part(p); w.err != nil {
			return types.Null, w.err
		}
	}
	if w.end >= 0 {
		w.out.Truncate(w.end)
	}
	return str(w.out.String())
}

// lastRelevant is the place of the last digit behind the point that is not zero, or of the point; -1 without a point.
func lastRelevant(s string) int {
	at := strings.IndexByte(s, '.')
	for i := at; at >= 0 && i < len(s); i++ {
		if s[i] != '0' {
			at = i
		}
	}
	return at
}

func (w *numWriter) stop() {
	if w.end < 0 {
		w.end = w.out.Len()
	}
}

func (w *numWriter) part(p numPart) {
	signed := func(wanted byte) {
		switch {
		case w.sign == wanted:
			w.out.WriteByte(wanted)
		case !w.fill:
			w.out.WriteByte(' ')
		}
	}
	switch p.pattern {
	case numText:
		w.out.WriteString(p.text)
	case numNine, numZero, numPoint:
		w.digit(p.pattern)
	case numComma, numGroup:
		switch {
		case w.inNumber:
			w.out.WriteByte(',')
		case !w.fill:
			w.out.WriteByte(' ')
		}
	case numCurrency:
		w.out.WriteByte(' ')
	case numRoman, numRomanLower:
		s := w.number
		if p.pattern == numRomanLower {
			s = strings.ToLower(s)
		}
		if !w.fill {
			s = strings.Repeat(" ", max(15-len(s), 0)) + s
		}
		w.out.WriteString(s)
	case numOrdinal, numOrdinalLower:
		if w.roman || strings.HasPrefix(w.number, "#") || w.sign == '-' || w.point {
			return
		}
		n := len(w.number)
		if n == 0 || w.number[n-1] < '0' || w.number[n-1] > '9' {
			w.err = sqlstate.New(sqlstate.InvalidTextRepresentation, "%q is not a number", types.Raw(w.number))
			return
		}
		w.out.WriteString(ordinal(w.number, p.pattern == numOrdinal))
	case numMinus:
		signed('-')
	case numPlus:
		signed('+')
	case numSign:
		if w.roman {
			w.stop()
		}
		w.out.WriteByte(w.sign)
	}
}

// leadingZero reports that the digit to be written is the lone zero before a point, which shows as a blank.
func (w *numWriter) leadingZero() bool {
	return !w.zero && w.at == 0 && strings.HasPrefix(w.number, "0") && w.post != 0
}

func (w *numWriter) pointRelevant() bool { return w.relevant >= 0 && w.number[w.relevant] == '.' }

func (w *numWriter) digit(p numPattern) {
	if w.roman {
		return
	}
	w.inNumber = false
	if !w.signDone && (w.place >= w.spaces || w.zero && w.zeroStart == w.place) && (!w.leadingZero() || w.pointRelevant()) {
		switch {
		case w.s:
			if w.signBefore {
				w.out.WriteByte(w.sign)
				w.signDone = true
			}
		case w.bracket:
			w.out.WriteString(choose(w.sign == '+', " ", "<"))
			w.signDone = true
		case w.sign == '+':
			if !w.fill {
				w.out.WriteByte(' ')
			}
			w.signDone = true
		case w.sign == '-':
			w.out.WriteByte('-')
			w.signDone = true
		}
	}
	switch {
	case w.place < w.spaces && (w.zeroStart > w.place || !w.zero):
		if !w.fill {
			w.out.WriteByte(' ')
		}
	case w.zero && w.place < w.spaces:
		w.out.WriteByte('0')
		w.inNumber = true
	default:
		w.next(p)
	}
	end := w.last
	if w.spaces > 0 {
		end++
	}
	if w.point {
		end++
	}
	if w.relevant >= 0 && w.relevant == w.at {
		end = w.place
	}
	if w.place+1 == end {
		switch {
		case w.signDone && w.bracket:
			w.out.WriteString(choose(w.sign == '+', " ", ">"))
		case w.s && !w.signBefore:
			w.out.WriteByte(w.sign)
		}
	}
	w.place++
}

// next writes the next character of the number.
func (w *numWriter) next(p numPattern) {
	if w.at >= len(w.number) && !(w.relevant >= 0 && w.at > w.relevant && p != numZero) {
		w.stop()
		return
	}
	switch {
	case w.at < len(w.number) && w.number[w.at] == '.':
		w.out.WriteByte('.')
	case w.relevant >= 0 && w.at > w.relevant && p != numZero:
	case w.leadingZero():
		switch {
		case !w.fill:
			w.out.WriteByte(' ')
		case w.pointRelevant():
			w.out.WriteByte('0')
		}
	default:
		w.out.WriteByte(w.number[w.at])
		w.inNumber = true
	}
	w.at = min(w.at+1, len(w.number))
}

// numReader reads a number by a template.
type numReader struct {
	*numTemplate
	in                string
	at                int
	sign              byte // ' ' until one was read
	digits            []byte
	readPre, readPost int
	readPoint         bool
}

func (r *numReader) over() bool { return r.at >= len(r.in) }

// skip passes over characters that are not part of a number.
func (r *numReader) skip(n int) {
	for ; n > 0 && !r.over() && !strings.ContainsRune("0123456789.,+-", rune(r.in[r.at])); n-- {
		r.character()
	}
}

func (r *numReader) character() {
	_, w := utf8.DecodeRuneInString(r.in[r.at:])
	r.at += w
}

// readNumber is to_number.
func readNumber(s, format string) (types.Datum, error) {
	if format == "" {
		return types.Null, nil
	}
	n, err := parseNumTemplate(format)
	if err != nil {
		return types.Null, err
	}
	switch {
	case n.exp:
		return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "\"EEEE\" not supported for input")
	case n.roman:
		return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "\"RN\" not supported for input")
	}
	r := &numReader{numTemplate: n, in: s, sign: ' '}
	for _, p := range n.parts {
		if r.over() {
			break
		}
		r.part(p)
	}
	text := strings.TrimSuffix(string(r.digits), ".")
	d, err := types.ParseDecimal(string(r.sign) + text)
	if err != nil {
		return types.Null, err
	}
	d = types.RoundDecimal(d, int32(r.readPost))
	if whole := n.pre + n.multi; d.Form == apd.Finite && d.Coeff.Sign() != 0 && d.NumDigits()+int64(d.Exponent) > int64(whole) {
		limit := "1"
		if whole > 0 {
			limit = "10^" + strconv.Itoa(whole)
		}
		return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "numeric field overflow").
			WithDetail("A field with precision %d, scale %d must round to an absolute value less than %s.", whole+r.readPost, r.readPost, limit)
	}
	if n.v {
		// The power of ten has sixteen digits behind the point, as power() gives it.
		scale := int32(max(16, n.multi))
		d = types.RoundDecimal(&apd.Decimal{Form: d.Form, Negative: d.Negative, Coeff: d.Coeff, Exponent: d.Exponent - int32(n.multi)}, scale+int32(r.readPost))
	}
	return types.NewDecimal(d), nil
}

func (r *numReader) part(p numPart) {
	marked := func(wanted string, width int) {
		if c := r.in[r.at]; strings.IndexByte(wanted, c) >= 0 {
			r.sign = c
			r.at++
			return
		}
		r.skip(width)
	}
	switch p.pattern {
	case numText:
		r.character()
	case numNine, numZero, numPoint:
		r.digit(p.pattern)
		r.at++
	case numComma, numGroup:
		if r.in[r.at] == ',' && !r.fill {
			r.at++
		}
	case numCurrency:
		r.skip(1)
	case numOrdinal, numOrdinalLower:
		if !r.point {
			r.skip(2)
		}
	case numMinus:
		marked("-", 1)
	case numPlus:
		marked("+", 1)
	case numSign:
		marked("-+", 1)
	}
}

// digit reads a digit or the point, and signs that stand before the first or behind the last digit. The caller passes over the character
// at which it ends.
func (r *numReader) digit(p numPattern) {
	if r.in[r.at] == ' ' {
		r.at++
	}
	if r.over() {
		return
	}
	if r.sign == ' ' && p != numPoint && r.readPre+r.readPost == 0 {
		switch c := r.in[r.at]; {
		case c == '-', r.bracket && c == '<':
			r.sign = '-'
			r.at++
		case c == '+':
			r.sign = '+'
			r.at++
		}
	}
	if r.over() {
		return
	}
	read := false
	switch c := r.in[r.at]; {
	case c >= '0' && c <= '9':
		if r.readPoint && r.readPost == r.post {
			return
		}
		r.digits = append(r.digits, c)
		if r.readPoint {
			r.readPost++
		} else {
			r.readPre++
		}
		read = true
	case r.point && !r.readPoint && c == '.':
		r.digits = append(r.digits, '.')
		r.readPoint, read = true, true
	}
	if r.sign != ' ' || r.readPre+r.readPost == 0 {
		return
	}
	switch {
	case r.s && read && r.at+1 < len(r.in) && (r.in[r.at+1] < '0' || r.in[r.at+1] > '9'):
		if c := r.in[r.at+1]; c == '-' || c == '+' {
			r.sign = c
			r.at++
		}
	case !read && !r.s && (r.plus || r.minus):
		if c := r.in[r.at]; c == '-' || c == '+' {
			r.sign = c
		}
	}
}

// addNumberTemplates adds to_char of numbers, and to_number.
func addNumberTemplates(r *Registry) {
	for _, t := range []*types.T{types.Int4, types.Int8, types.Decimal, types.Float4, types.Float8} {
		r.Func2("to_char("+t.TypName()+", text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			return formatNumber(a, t, b.Str())
		})
	}
	r.Func2("to_number(text, text) numeric", func(_ *Context, a, b types.Datum) (types.Datum, error) { return readNumber(a.Str(), b.Str()) })
}
