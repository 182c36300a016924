package copydata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/session/result"

	"meridian/sql/bind"
	"meridian/sql/charset"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// signature begins binary copy data.
var signature = []byte("PGCOPY\n\xff\r\n\x00")

// Reader turns copy data into rows.
type Reader struct {
	Reading
	src   result.CopySource
	opts  *bind.CopyOptions
	names []string
	table string
	buf   []byte // unread data
	at    int
	eof   bool
	begun bool
	line  int64
	field []byte
	nulls []bool
	parts [][]byte
	text  []byte    // the line, or the record, that is being read
	ends  ending    // how the first line ended, and so all do
	ended bool      // the end mark, or the end of the data, was read
	taken int64     // of memory
	marks [256]bool // bytes that mean something where a line ends
	half  []byte    // the beginning of a character whose rest has not come
}

// Reading has the options of a Reader.
type Reading struct {
	Kinds []*types.T
	Env   types.Env // of the fields' text forms
	// Charset is the encoding of the data, and Client that of text within binary data; nil: UTF-8.
	Charset, Client *charset.Charset
	// Memory accounts for the buffers, the fields and the value that is being parsed.
	Memory *memory.Account
}

// NewReader makes a Reader for a COPY FROM.
func NewReader(src result.CopySource, c *bind.Copy, how Reading) *Reader {
	r := &Reader{Reading: how, src: src, opts: &c.Options, names: c.Names, table: c.Table.Name}
	r.marks['\n'], r.marks['\r'], r.marks['\\'] = true, true, true
	if r.opts.Format == "csv" {
		r.marks[r.opts.Quote], r.marks[r.opts.Escape] = true, true
	}
	return r
}

// more adds the next piece of data; false at the end.
func (r *Reader) more() (bool, error) {
	if r.eof {
		return false, nil
	}
	if r.at > 0 {
		r.buf = append(r.buf[:0], r.buf[r.at:]...)
		r.at = 0
	}
	p, err := r.src.Next()
	if errors.Is(err, io.EOF) {
		r.eof = true
		if len(r.half) > 0 {
			_, err := r.Charset.Decode(r.half)
			return false, err
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if r.Charset != nil && r.opts.Format != "binary" {
		if len(r.half) > 0 {
			p = append(r.half, p...)
		}
		var rest []byte
		if p, rest, err = r.Charset.DecodeStart(p); err != nil {
			return false, err
		}
		r.half = append([]byte(nil), rest...)
	}
	// A row is in memory several times: in the buffer, in its fields and in its values.
	if need := int64(len(r.buf)+len(p)) * factor; need > r.taken {
		if len(r.buf) > rowMax {
			return false, sqlstate.New(sqlstate.ProgramLimitExceeded, "out of memory").
				WithDetail("Cannot enlarge string buffer containing %d bytes by %d more bytes.", len(r.buf), len(p))
		}
		need += need / 2
		if err := r.Memory.Grow(need - r.taken); err != nil {
			return false, err
		}
		r.taken = need
	}
	r.buf = append(r.buf, p...)
	return true, nil
}

const (
	// rowMax bounds one row of COPY's data, as PostgreSQL's string buffers are.
	rowMax = 1 << 30
	factor = 4
)

// Where adds to an error the line in which it occurred, and the beginning of the line's text if it is known.
func (r *Reader) Where(err error) error {
	shown := ""
	if r.opts.Format != "binary" && r.text != nil {
		shown = ": \"" + cutShown(r.text) + "\""
	}
	return r.context(err, shown)
}

// whereIn is Where for the value of a column.
func (r *Reader) whereIn(err error, i int) error {
	shown := ", column " + r.names[i]
	switch {
	case r.opts.Format == "binary":
	case r.nulls[i]:
		shown += ": null input"
	default:
		shown += ": \"" + cutShown(r.parts[i]) + "\""
	}
	return r.context(err, shown)
}

func (r *Reader) context(err error, shown string) error {
	var e *sqlstate.Error
	if !errors.As(err, &e) || e.Context != "" {
		return err
	}
	c := *e
	c.Context = "COPY " + r.table + ", line " + strconv.FormatInt(r.line, 10) + shown
	return &c
}

// cutShown is the part of a line or a value that an error shows.
func cutShown(b []byte) string {
	const most = 100
	if len(b) <= most {
		return string(b)
	}
	n := most
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return string(b[:n]) + "..."
}

// Next reads a row; io.EOF ends the data.
func (r *Reader) Next(row types.Row) error {
	switch r.opts.Format {
	case "binary":
		return r.nextBinary(row)
	case "csv":
		return r.nextLine(row, r.splitCSV)
	}
	return r.nextLine(row, r.splitText)
}

// checkHeader compares the header with the columns, for HEADER MATCH.
func (r *Reader) checkHeader() error {
	if !r.opts.HeaderMatch {
		return nil
	}
	if len(r.parts) != len(r.names) {
		return r.Where(badCopy("wrong number of fields in header line: got %d, expected %d", len(r.parts), len(r.names)))
	}
	for i, name := range r.names {
		switch {
		case r.nulls[i]:
			return r.Where(badCopy("column name mismatch in header line field %d: got null value (\"%s\"), expected \"%s\"", i+1, r.opts.Null, name))
		case string(r.parts[i]) != name:
			return r.Where(badCopy("column name mismatch in header line field %d: got \"%s\", expected \"%s\"", i+1, r.parts[i], name))
		}
	}
	return nil
}

func badCopy(format string, args ...any) *sqlstate.Error {
	return sqlstate.New(sqlstate.BadCopyFormat, format, args...)
}

func (r *Reader) nextLine(row types.Row, split func() error) error {
	if !r.begun {
		split := split
		r.begun = true
		if r.opts.Header {
			if !r.opts.HeaderMatch {
				split = func() error { _, err := r.takeLine(); return err }
			}
			if err := split(); err != nil {
				return err
			}
			if err := r.checkHeader(); err != nil {
				return err
			}
		}
	}
	if err := split(); err != nil {
		return err
	}
	if len(r.parts) > len(row) {
		return r.Where(badCopy("extra data after last expected column"))
	}
	for i := range row {
		if i >= len(r.parts) {
			return r.Where(badCopy("missing data for column %q", r.names[i]))
		}
		p := r.parts[i]
		if r.nulls[i] {
			row[i] = types.Null
			continue
		}
		if err := types.CheckString(p); err != nil {
			return r.context(err, "")
		}
		d, err := types.ParseTextEnv(r.Kinds[i], string(p), r.Env)
		if err != nil {
			return r.whereIn(err, i)
		}
		row[i] = d
	}
	return nil
}

// ending is what ends the lines.
type ending uint8

const (
	unknownEnding ending = iota
	newline
	carriageReturn
	both
)

// literal refuses a character that would end a line, but not as the lines before have ended.
func (r *Reader) literal(name, escape string) error {
	if r.opts.Format == "csv" {
		return r.Where(badCopy("unquoted %s found in data", name).WithHint("Use quoted CSV field to represent %s.", name))
	}
	return r.Where(badCopy("literal %s found in data", name).WithHint("Use \"%s\" to represent %s.", escape, name))
}

// takeLine returns the next line, or record of CSV, without its end; io.EOF if there is none. All lines end as the first does. A backslash and a dot end the data: in CSV when they are
// a line, and else wherever they are, with what is before them as the last line.
func (r *Reader) takeLine() ([]byte, error) {
	if r.text = nil; r.ended {
		return nil, io.EOF
	}
	csv := r.opts.Format == "csv"
	quote, escape := r.opts.Quote, r.opts.Escape
	inside, escaped := false, false
	r.line++
	line := func(n, skip int) []byte {
		out := r.buf[r.at : r.at+n]
		r.at += n + skip
		return out
	}
	for i := 0; ; i++ {
		for ; r.at+i < len(r.buf) && !r.marks[r.buf[r.at+i]]; i++ {
			escaped = false
		}
		c, ok, err := r.peek(i)
		if err != nil {
			return nil, err
		}
		if !ok {
			if r.ended = true; i == 0 {
				return nil, io.EOF
			}
			return line(i, 0), nil
		}
		if csv {
			if inside && c == escape && escape != quote {
				escaped = !escaped
			}
			if c == quote && !escaped {
				inside = !inside
			}
			if c != escape || escape == quote {
				escaped = false
			}
			if inside {
				if end := byte('\r'); c == '\n' && r.ends == newline || c == end && r.ends != newline {
					r.line++
				}
				if c != '\\' || i > 0 {
					continue
				}
			}
		}
		switch {
		case c == '\r':
			if r.ends == newline {
				return nil, r.literal("carriage return", `\r`)
			}
			if r.ends == carriageReturn {
				return line(i, 1), nil
			}
			next, ok, err := r.peek(i + 1)
			if err != nil {
				return nil, err
			}
			if ok && next == '\n' {
				r.ends = both
				return line(i, 2), nil
			}
			if r.ends == both {
				return nil, r.literal("carriage return", `\r`)
			}
			r.ends = carriageReturn
			return line(i, 1), nil
		case c == '\n':
			if r.ends == carriageReturn || r.ends == both {
				return nil, r.literal("newline", `\n`)
			}
			r.ends = newline
			return line(i, 1), nil
		case c == '\\' && (!csv || i == 0):
			next, ok, err := r.peek(i + 1)
			if err != nil {
				return nil, err
			}
			if ok && next == '.' {
				mark, err := r.endMark(i + 2)
				if err != nil {
					return nil, err
				}
				if mark {
					out := line(i, 0)
					r.ended, r.eof, r.at = true, true, len(r.buf)
					if len(out) == 0 {
						return nil, io.EOF
					}
					return out, nil
				}
			}
			if ok && !csv {
				i++ // whatever it is, it does not end the line
			}
		}
	}
}

// peek returns the byte at an offset from the beginning of the line; ok is false at the end of the data.
func (r *Reader) peek(i int) (c byte, ok bool, err error) {
	for r.at+i >= len(r.buf) {
		if more, err := r.more(); !more || err != nil {
			return 0, false, err
		}
	}
	return r.buf[r.at+i], true, nil
}

// endMark reports whether the backslash and the dot before an offset end the data. Only in CSV may they be part of a value.
func (r *Reader) endMark(i int) (bool, error) {
	corrupt := func(format string) (bool, error) {
		if r.opts.Format == "csv" {
			return false, nil
		}
		return false, r.Where(badCopy("%s", format))
	}
	const style = "end-of-copy marker does not match previous newline style"
	if r.ends == both {
		c, _, err := r.peek(i)
		if err != nil {
			return false, err
		}
		if c == '\n' {
			return corrupt(style)
		}
		if c != '\r' {
			return corrupt("end-of-copy marker corrupt")
		}
		i++
	}
	c, _, err := r.peek(i)
	switch {
	case err != nil:
		return false, err
	case c != '\r' && c != '\n':
		return corrupt("end-of-copy marker corrupt")
	case (r.ends == newline || r.ends == both) && c != '\n' || r.ends == carriageReturn && c != '\r':
		return false, r.Where(badCopy(style))
	}
	return true, nil
}

// splitText splits a line of the text format: delimiters, backslash escapes, \N and the end mark \.
func (r *Reader) splitText() error {
	line, err := r.takeLine()
	if err != nil {
		return err
	}
	r.text = line
	r.parts, r.nulls, r.field = r.parts[:0], r.nulls[:0], r.field[:0]
	if len(r.Kinds) == 0 && len(line) == 0 {
		return nil
	}
	start, raw := 0, 0
	end := func(i int) {
		r.nulls = append(r.nulls, string(line[raw:i]) == r.opts.Null)
		r.parts = append(r.parts, r.field[start:len(r.field):len(r.field)])
		start = len(r.field)
	}
	// The decoded line is never longer than the line, so field does not move while parts point into it.
	if cap(r.field) < len(line) {
		r.field = make([]byte, 0, 2*len(line))
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == r.opts.Delimiter {
			end(i)
			raw = i + 1
			continue
		}
		if c != '\\' {
			r.field = append(r.field, c)
			continue
		}
		if i++; i == len(line) { // a backslash that the data ends with is nothing
			break
		}
		switch e := line[i]; e {
		case 'b':
			r.field = append(r.field, '\b')
		case 'f':
			r.field = append(r.field, '\f')
		case 'n':
			r.field = append(r.field, '\n')
		case 'r':
			r.field = append(r.field, '\r')
		case 't':
			r.field = append(r.field, '\t')
		case 'v':
			r.field = append(r.field, '\v')
		case 'x':
			v, n := hexDigits(line[i+1:])
			if n == 0 {
				r.field = append(r.field, 'x')
			} else {
				r.field = append(r.field, v)
				i += n
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v, n := byte(0), 0
			for ; n < 3 && i+n < len(line) && line[i+n] >= '0' && line[i+n] <= '7'; n++ {
				v = v<<3 | line[i+n] - '0'
			}
			r.field = append(r.field, v)
			i += n - 1
		default:
			r.field = append(r.field, e)
		}
	}
	end(len(line))
	return nil
}

func hexDigits(b []byte) (byte, int) {
	n := 0
	for n < 2 && n < len(b) && strings.IndexByte("0123456789abcdefABCDEF", b[n]) >= 0 {
		n++
	}
	v, _ := strconv.ParseUint(string(b[:n]), 16, 8)
	return byte(v), n
}

// splitCSV splits a record of the CSV format, which may span lines.
func (r *Reader) splitCSV() error {
	line, err := r.takeLine()
	if err != nil {
		return err
	}
	record := line
	r.text = record
	r.parts, r.nulls = r.parts[:0], r.nulls[:0]
	r.field = make([]byte, 0, len(record))
	start, quoted, inside := 0, false, false
	end := func() {
		v := r.field[start:len(r.field):len(r.field)]
		i := len(r.parts)
		isNull := !quoted && string(v) == r.opts.Null && !(i < len(r.names) && listed(r.opts.ForceNotNull, r.names[i]))
		if quoted && i < len(r.names) && listed(r.opts.ForceNull, r.names[i]) && string(v) == r.opts.Null {
			isNull = true
		}
		r.parts, r.nulls = append(r.parts, v), append(r.nulls, isNull)
		start, quoted = len(r.field), false
	}
	for i := 0; i < len(record); i++ {
		c := record[i]
		switch {
		case inside && c == r.opts.Escape && i+1 < len(record) && (record[i+1] == r.opts.Quote || record[i+1] == r.opts.Escape && r.opts.Escape != r.opts.Quote):
			i++
			r.field = append(r.field, record[i])
		case c == r.opts.Quote:
			inside = !inside
			quoted = true
		case c == r.opts.Delimiter && !inside:
			end()
		default:
			r.field = append(r.field, c)
		}
	}
	if inside {
		return r.Where(badCopy("unterminated CSV quoted field"))
	}
	end()
	return nil
}

func listed(list []string, name string) bool {
	for _, n := range list {
		if n == name || n == "*" {
			return true
		}
	}
	return false
}

// need makes n unread bytes available.
func (r *Reader) need(n int) error {
	for len(r.buf)-r.at < n {
		ok, err := r.more()
		if err != nil {
			return err
		}
		if !ok {
			return badCopy("unexpected EOF in COPY data")
		}
	}
	return nil
}

func (r *Reader) nextBinary(row types.Row) error {
	if !r.begun {
		r.begun = true
		if err := r.need(len(signature) + 8); err != nil {
			return err
		}
		if !bytes.HasPrefix(r.buf[r.at:], signature) {
			return badCopy("COPY file signature not recognized")
		}
		extra := int(int32(binary.BigEndian.Uint32(r.buf[r.at+len(signature)+4:])))
		r.at += len(signature) + 8
		if extra < 0 || extra > 1<<20 {
			return badCopy("invalid COPY file header (wrong length)")
		}
		if err := r.need(extra); err != nil {
			return err
		}
		r.at += extra
	}
	// Drivers may omit the end marker: the stream may end wherever a row could begin.
	for r.at == len(r.buf) {
		ok, err := r.more()
		if err != nil {
			return err
		}
		if !ok {
			return io.EOF
		}
	}
	if err := r.need(2); err != nil {
		return err
	}
	n := int(int16(binary.BigEndian.Uint16(r.buf[r.at:])))
	r.at += 2
	r.line++
	if n == -1 {
		if ok, err := r.more(); err != nil {
			return err
		} else if ok && r.at < len(r.buf) {
			return badCopy("received copy data after EOF marker")
		}
		return io.EOF
	}
	if n != len(row) {
		return badCopy("row field count is %d, expected %d", n, len(row))
	}
	for i := range row {
		if err := r.need(4); err != nil {
			return err
		}
		size := int(int32(binary.BigEndian.Uint32(r.buf[r.at:])))
		r.at += 4
		if size == -1 {
			row[i] = types.Null
			continue
		}
		if size < 0 || size > 1<<30 {
			return badCopy("invalid field size")
		}
		if err := r.need(size); err != nil {
			return err
		}
		raw, err := DecodeBinary(r.Client, r.buf[r.at:r.at+size], r.Kinds[i])
		if err != nil {
			return r.whereIn(err, i)
		}
		d, err := types.ParseBinary(r.Kinds[i], raw)
		if err != nil {
			return r.whereIn(err, i)
		}
		row[i] = d
		r.at += size
	}
	return nil
}

// DecodeBinary converts the text in the binary form of a value; without a charset it is UTF-8.
func DecodeBinary(cs *charset.Charset, raw []byte, t *types.T) ([]byte, error) {
	if cs == nil {
		return raw, nil
	}
	switch t.Phys() {
	case types.PhysString, types.PhysChar, types.PhysJSON:
		return cs.Decode(raw)
	case types.PhysArray, types.PhysTuple:
		if t.Elem != nil && t.Elem.Phys() != types.PhysString && t.Elem.Phys() != types.PhysChar && t.Elem.Phys() != types.PhysJSON {
			break
		}
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "binary arrays and rows of text need client_encoding UTF8")
	}
	return raw, nil
}
