package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/bind"
	"meridian/sql/charset"
	"meridian/sql/exec"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// copySignature begins binary copy data.
var copySignature = []byte("PGCOPY\n\xff\r\n\x00")

// copyCommand runs COPY in either direction.
func (s *Session) copyCommand(ctx context.Context, c *bind.Copy) (string, error) {
	if c.Target != "" {
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "COPY reads from and writes to the client only").
			WithHint("Use STDIN or STDOUT, or psql's \\copy.")
	}
	s.ensureTxn()
	if err := s.holdCursors(ctx); err != nil {
		return "", err
	}
	if c.From {
		return s.copyFrom(ctx, c)
	}
	return s.copyTo(ctx, c)
}

func copyFormat(c *bind.Copy) Format {
	if c.Options.Format == "binary" {
		return Binary
	}
	return Text
}

// copyFrom reads the client's rows. They are written in chunks, within the transaction.
func (s *Session) copyFrom(ctx context.Context, c *bind.Copy) (string, error) {
	if s.modes.readOnly && !c.Table.Temporary() {
		return "", sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute COPY FROM in a read-only transaction")
	}
	p := &plan{bound: c.Insert, private: true}
	if err := s.compile(ctx, p, c.Insert, s.planRoom(ctx)); err != nil {
		return "", err
	}
	cs, err := s.copyCharset(c)
	if err != nil {
		return "", err
	}
	kinds := make([]*types.T, len(c.Columns))
	for i, o := range c.Columns {
		kinds[i] = c.Table.Columns[o].Type
	}
	src, err := s.copySource(c)
	if err != nil {
		return "", err
	}
	n, err := s.ingest(ctx, c, p, kinds, src, cs)
	if err != nil {
		// What the client still sends of it is ignored.
		return "", err
	}
	return "COPY " + itoa(n), nil
}

// copySource asks the client for data, which is recorded up to a bound. When the statement runs again, it is there
// already.
func (s *Session) copySource(c *bind.Copy) (CopySource, error) {
	st := s.replay.at
	if st.tape != nil {
		return st.tape, nil
	}
	src, err := s.out.CopyIn(copyFormat(c), len(c.Columns))
	if err != nil {
		return nil, err
	}
	// The client has heard that it is its turn; what it sees of the statement comes after that.
	st.start = s.out.Mark().position()
	s.out.Watch(Fingerprint{})
	st.tape = &tape{live: src, limit: s.limit("transaction_replay_size") - s.replay.size}
	return st.tape, nil
}

func (s *Session) ingest(ctx context.Context, c *bind.Copy, p *plan, kinds []*types.T, src CopySource, cs *charset.Charset) (int64, error) {
	w, err := exec.NewCopyWriter(p.program, s.environmentFor(nil, false))
	if err != nil {
		return 0, err
	}
	defer w.Close()
	in := &copyReader{src: src, opts: &c.Options, kinds: kinds, names: c.Names, s: s, table: c.Table.Name, memory: s.account(), env: s.textEnv(), charset: cs}
	n := int64(0)
	row := make(types.Row, len(kinds))
	for {
		if n%16 == 0 && ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		err := in.next(row)
		if errors.Is(err, io.EOF) {
			return n, w.Flush(ctx)
		}
		if err != nil {
			return n, err
		}
		if err := w.Add(ctx, row); err != nil {
			return n, in.where(err)
		}
		n++
	}
}

// copyReader turns copy data into rows.
type copyReader struct {
	s     *Session
	src   CopySource
	opts  *bind.CopyOptions
	kinds []*types.T
	env   types.Env // of the fields' text forms
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
	text  []byte // the line, or the record, that is being read
	// memory has what buf, field and the value that is being parsed occupy.
	memory *memory.Account
	taken  int64
	// charset is the data's, nil: UTF-8; half is the beginning of a character whose rest has not come.
	charset *charset.Charset
	half    []byte
}

// more adds the next piece of data; false at the end.
func (r *copyReader) more() (bool, error) {
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
			_, err := r.charset.Decode(r.half)
			return false, err
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if r.charset != nil && r.opts.Format != "binary" {
		if len(r.half) > 0 {
			p = append(r.half, p...)
		}
		var rest []byte
		if p, rest, err = r.charset.DecodeStart(p); err != nil {
			return false, err
		}
		r.half = append([]byte(nil), rest...)
	}
	// A row is at once in the buffer, in its fields and in its values.
	if need := int64(len(r.buf)+len(p)) * copyFactor; need > r.taken {
		if len(r.buf) > copyRowMax {
			return false, sqlstate.New(sqlstate.ProgramLimitExceeded, "out of memory").
				WithDetail("Cannot enlarge string buffer containing %d bytes by %d more bytes.", len(r.buf), len(p))
		}
		need += need / 2
		if err := r.memory.Grow(need - r.taken); err != nil {
			return false, err
		}
		r.taken = need
	}
	r.buf = append(r.buf, p...)
	return true, nil
}

const (
	// copyRowMax bounds one row of COPY's data, as PostgreSQL's string buffers are.
	copyRowMax = 1 << 30
	copyFactor = 4
)

// where says in which line an error came up, and what was in it, as far as that is known.
func (r *copyReader) where(err error) error {
	shown := ""
	if r.opts.Format != "binary" && r.text != nil {
		shown = ": \"" + cutShown(r.text) + "\""
	}
	return r.context(err, shown)
}

// whereIn is where for one column's value.
func (r *copyReader) whereIn(err error, i int) error {
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

func (r *copyReader) context(err error, shown string) error {
	var e *sqlstate.Error
	if !errors.As(err, &e) || e.Context != "" {
		return err
	}
	c := *e
	c.Context = "COPY " + r.table + ", line " + itoa(r.line) + shown
	return &c
}

// cutShown is as much of a line or a value as an error shows.
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

func (r *copyReader) next(row types.Row) error {
	switch r.opts.Format {
	case "binary":
		return r.nextBinary(row)
	case "csv":
		return r.nextLine(row, r.splitCSV)
	}
	return r.nextLine(row, r.splitText)
}

// checkHeader compares the header with the columns, if HEADER MATCH asks for that.
func (r *copyReader) checkHeader() error {
	if !r.opts.HeaderMatch {
		return nil
	}
	if len(r.parts) != len(r.names) {
		return r.where(badCopy("wrong number of fields in header line: got %d, expected %d", len(r.parts), len(r.names)))
	}
	for i, name := range r.names {
		switch {
		case r.nulls[i]:
			return r.where(badCopy("column name mismatch in header line field %d: got null value (\"%s\"), expected \"%s\"", i+1, r.opts.Null, name))
		case string(r.parts[i]) != name:
			return r.where(badCopy("column name mismatch in header line field %d: got \"%s\", expected \"%s\"", i+1, r.parts[i], name))
		}
	}
	return nil
}

func badCopy(format string, args ...any) error {
	return sqlstate.New(sqlstate.BadCopyFormat, format, args...)
}

func (r *copyReader) nextLine(row types.Row, split func() error) error {
	if !r.begun {
		r.begun = true
		if r.opts.Header {
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
	if len(r.parts) < len(row) {
		return r.where(badCopy("missing data for column %q", r.names[len(r.parts)]))
	}
	if len(r.parts) > len(row) {
		return r.where(badCopy("extra data after last expected column"))
	}
	for i, p := range r.parts {
		if r.nulls[i] {
			row[i] = types.Null
			continue
		}
		if err := types.CheckString(p); err != nil {
			return r.context(err, "")
		}
		d, err := types.ParseTextEnv(r.kinds[i], string(p), r.env)
		if err != nil {
			return r.whereIn(err, i)
		}
		row[i] = d
	}
	return nil
}

// takeLine returns the next line without its end; io.EOF if there is none.
func (r *copyReader) takeLine() ([]byte, error) {
	from := r.at
	for {
		if i := bytes.IndexByte(r.buf[from:], '\n'); i >= 0 {
			line := r.buf[r.at : from+i]
			r.at = from + i + 1
			r.line++
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		unread := len(r.buf) - r.at
		ok, err := r.more()
		if err != nil {
			return nil, err
		}
		if !ok {
			if r.at == len(r.buf) {
				return nil, io.EOF
			}
			line := r.buf[r.at:]
			r.at = len(r.buf)
			r.line++
			return line, nil
		}
		from = r.at + unread
	}
}

// splitText splits a line of the text format: delimiters, backslash escapes, \N and the end mark \.
func (r *copyReader) splitText() error {
	line, err := r.takeLine()
	if err != nil {
		return err
	}
	r.text = line
	if len(line) == 2 && line[0] == '\\' && line[1] == '.' {
		r.eof, r.at = true, len(r.buf)
		return io.EOF
	}
	r.parts, r.nulls, r.field = r.parts[:0], r.nulls[:0], r.field[:0]
	if len(r.kinds) == 0 && len(line) == 0 {
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
		if c != '\\' || i+1 == len(line) {
			r.field = append(r.field, c)
			continue
		}
		i++
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
func (r *copyReader) splitCSV() error {
	line, err := r.takeLine()
	if err != nil {
		return err
	}
	if string(line) == `\.` {
		r.eof, r.at = true, len(r.buf)
		return io.EOF
	}
	// Lines belong to one record while a quote is open.
	record := append([]byte(nil), line...)
	r.text = record
	for open := r.quoted(line, false); open; {
		next, err := r.takeLine()
		if errors.Is(err, io.EOF) {
			r.text = append(record, '\n')
			return r.where(badCopy("unterminated CSV quoted field"))
		}
		if err != nil {
			return err
		}
		open = r.quoted(next, true)
		record = append(append(record, '\n'), next...)
		r.text = record
		if need := int64(len(record)) * copyFactor; need > r.taken {
			if err := r.memory.Grow(need - r.taken); err != nil {
				return err
			}
			r.taken = need
		}
		if len(record) > copyRowMax {
			return sqlstate.New(sqlstate.ProgramLimitExceeded, "out of memory").
				WithDetail("Cannot enlarge string buffer containing %d bytes.", len(record))
		}
	}
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
	end()
	return nil
}

// quoted reports whether a quote is open at the end of a line, given whether one is at its beginning.
func (r *copyReader) quoted(line []byte, open bool) bool {
	quote, escape := r.opts.Quote, r.opts.Escape
	escaped := false
	for _, c := range line {
		if open && c == escape && escape != quote {
			escaped = !escaped
		}
		if c == quote && !escaped {
			open = !open
		}
		if c != escape || escape == quote {
			escaped = false
		}
	}
	return open
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
func (r *copyReader) need(n int) error {
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

func (r *copyReader) nextBinary(row types.Row) error {
	if !r.begun {
		r.begun = true
		if err := r.need(len(copySignature) + 8); err != nil {
			return err
		}
		if !bytes.HasPrefix(r.buf[r.at:], copySignature) {
			return badCopy("COPY file signature not recognized")
		}
		extra := int(int32(binary.BigEndian.Uint32(r.buf[r.at+len(copySignature)+4:])))
		r.at += len(copySignature) + 8
		if extra < 0 || extra > 1<<20 {
			return badCopy("invalid COPY file header (wrong length)")
		}
		if err := r.need(extra); err != nil {
			return err
		}
		r.at += extra
	}
	// Drivers may leave out the marker of the end: the stream may end wherever a row could begin.
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
		raw, err := r.s.decodeBinary(r.buf[r.at:r.at+size], r.kinds[i])
		if err != nil {
			return r.whereIn(err, i)
		}
		d, err := types.ParseBinary(r.kinds[i], raw)
		if err != nil {
			return r.whereIn(err, i)
		}
		row[i] = d
		r.at += size
	}
	return nil
}

// copyTo sends a query's rows.
func (s *Session) copyTo(ctx context.Context, c *bind.Copy) (string, error) {
	p := &plan{bound: c.Query, private: true}
	if err := s.compile(ctx, p, c.Query, s.planRoom(ctx)); err != nil {
		return "", err
	}
	p, err := s.prepareQuery(ctx, p, nil)
	if err != nil {
		return "", err
	}
	cs, err := s.copyCharset(c)
	if err != nil {
		return "", err
	}
	cur, err := p.program.Start(ctx, s.environmentFor(nil, false))
	if err != nil {
		return "", err
	}
	defer cur.Close()
	s.out.CopyOut(copyFormat(c), len(p.columns))
	w := &copyEncoder{s: s, opts: &c.Options, cols: p.columns, memory: s.account(), charset: cs}
	var buf []byte
	if c.Options.Format == "binary" {
		buf = append(append(buf, copySignature...), make([]byte, 8)...)
	} else if c.Options.Header {
		if buf, err = w.headerEncoded(); err == nil {
			err = s.out.CopyData(buf)
		}
		if err != nil {
			return "", err
		}
		buf = buf[:0]
	}
	n := int64(0)
	for {
		row, err := cur.Next(ctx)
		if err != nil {
			return "", err
		}
		if row == nil {
			break
		}
		n++
		if err := w.room(row); err != nil {
			return "", err
		}
		if buf, err = w.encoded(buf, row); err != nil {
			return "", err
		}
		if err := s.out.CopyData(buf); err != nil {
			return "", err
		}
		buf = buf[:0]
	}
	if c.Options.Format == "binary" {
		buf = append(buf, 0xff, 0xff)
	}
	if len(buf) > 0 {
		if err := s.out.CopyData(buf); err != nil {
			return "", err
		}
	}
	s.out.CopyDone()
	return "COPY " + itoa(n), nil
}

// copyCharset is the encoding of COPY's data: the client's, unless the statement names one.
func (s *Session) copyCharset(c *bind.Copy) (*charset.Charset, error) {
	if c.Options.Encoding == "" {
		return s.charset, nil
	}
	cs, _, err := charset.Find(c.Options.Encoding)
	if err != nil {
		return nil, sqlstate.New(sqlstate.InvalidParameterValue, "argument to option \"encoding\" must be a valid encoding name")
	}
	return cs, nil
}

// copyEncoder writes rows in one of the copy formats.
type copyEncoder struct {
	s    *Session
	opts *bind.CopyOptions
	cols []Column
	tmp  []byte
	// charset is the data's, nil: UTF-8; utf8 is the row before it is converted.
	charset *charset.Charset
	utf8    []byte
	// memory has what the buffers occupy that a row is written to.
	memory *memory.Account
	taken  int64
}

// room makes sure that a row's text may be in memory: as a value's, as the row's, and in the connection's buffer.
func (w *copyEncoder) room(row types.Row) error {
	n := int64(0)
	for i := range row {
		n += row[i].Weight()
	}
	if n *= 2 * copyFactor; n > w.taken {
		if err := w.memory.Grow(n - w.taken); err != nil {
			return err
		}
		w.taken = n
	}
	return nil
}

// encoded writes a row in the data's encoding.
func (w *copyEncoder) encoded(buf []byte, row types.Row) ([]byte, error) {
	if w.charset == nil {
		return w.row(buf, row), nil
	}
	if w.opts.Format != "binary" {
		w.utf8 = w.row(w.utf8[:0], row)
		return w.charset.Encode(buf, w.utf8)
	}
	other := make(types.Row, len(row))
	for i := range row {
		var err error
		if other[i], err = types.ConvertStrings(row[i], func(s string) (string, error) {
			b, err := w.charset.Encode(nil, []byte(s))
			return string(b), err
		}); err != nil {
			return nil, err
		}
	}
	return w.row(buf, other), nil
}

// headerEncoded is the header in the data's encoding.
func (w *copyEncoder) headerEncoded() ([]byte, error) {
	line := w.header(nil)
	if w.charset == nil {
		return line, nil
	}
	return w.charset.Encode(nil, line)
}

func (w *copyEncoder) header(buf []byte) []byte {
	for i := range w.cols {
		if i > 0 {
			buf = append(buf, w.opts.Delimiter)
		}
		buf = w.value(buf, []byte(w.cols[i].Name), false)
	}
	return append(buf, '\n')
}

func (w *copyEncoder) row(buf []byte, row types.Row) []byte {
	if w.opts.Format == "binary" {
		buf = binary.BigEndian.AppendUint16(buf, uint16(len(row)))
		for i, d := range row {
			if d.IsNull() {
				buf = append(buf, 0xff, 0xff, 0xff, 0xff)
				continue
			}
			w.tmp = types.AppendBinary(w.tmp[:0], d, w.cols[i].Type)
			buf = binary.BigEndian.AppendUint32(buf, uint32(len(w.tmp)))
			buf = append(buf, w.tmp...)
		}
		return buf
	}
	for i, d := range row {
		if i > 0 {
			buf = append(buf, w.opts.Delimiter)
		}
		if d.IsNull() {
			buf = append(buf, w.opts.Null...)
			continue
		}
		w.tmp = types.AppendText(w.tmp[:0], d, w.cols[i].Type, &w.s.style)
		buf = w.value(buf, w.tmp, listed(w.opts.ForceQuote, w.cols[i].Name))
	}
	return append(buf, '\n')
}

// value writes one value that is not NULL, or a name of the header, escaped or quoted. CSV is quoted where it has to be, or with force
// (FORCE_QUOTE, which is of values only).
func (w *copyEncoder) value(buf, v []byte, force bool) []byte {
	if w.opts.Format == "csv" {
		if !force && string(v) != w.opts.Null && !bytes.ContainsAny(v, string([]byte{w.opts.Delimiter, w.opts.Quote, '\n', '\r'})) && string(v) != `\.` {
			return append(buf, v...)
		}
		buf = append(buf, w.opts.Quote)
		for _, c := range v {
			if c == w.opts.Quote || c == w.opts.Escape {
				buf = append(buf, w.opts.Escape)
			}
			buf = append(buf, c)
		}
		return append(buf, w.opts.Quote)
	}
	for _, c := range v {
		switch c {
		case '\b':
			buf = append(buf, '\\', 'b')
		case '\f':
			buf = append(buf, '\\', 'f')
		case '\n':
			buf = append(buf, '\\', 'n')
		case '\r':
			buf = append(buf, '\\', 'r')
		case '\t':
			buf = append(buf, '\\', 't')
		case '\v':
			buf = append(buf, '\\', 'v')
		case '\\', w.opts.Delimiter:
			buf = append(buf, '\\', c)
		default:
			buf = append(buf, c)
		}
	}
	return buf
}
