package scalar

import (
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// scalar.S6 (I9): a value that a function returns is accounted for by its holder: the call that has it as an argument, the
// operator whose row it is in, the aggregate that keeps it. While a function runs, a call with large arguments reserves as much
// again for its work; functions that need more than that reserve it first (room). All of it is given back when the call has
// returned, so an account is exact between rows.
//
// scalar.S7: a call with large arguments first checks whether its statement was cancelled, and loops whose length is not bounded
// by some megabytes of arguments check now and then (Check).

// resultMax bounds the text that one call may build: PostgreSQL's limit on a value is 1 GB; ours is twice what a command
// of the log can carry.
const resultMax = 64 << 20

func tooLarge() error {
	return sqlstate.New(sqlstate.ProgramLimitExceeded, "requested length too large")
}

// Check reports that the statement was cancelled or is out of time.
func (ctx *Context) Check() error {
	if ctx == nil || ctx.Context == nil {
		return nil
	}
	return ctx.Context.Err()
}

// tick is Check for a loop: it checks every 1,024th time.
func (ctx *Context) tick(i int) error {
	if i&1023 != 1023 {
		return nil
	}
	return ctx.Check()
}

// room takes n bytes until the running call has returned. It fails with 54000 above the bound of a value, with 53200
// above the bound of the statement, and if the statement was cancelled.
func (ctx *Context) room(n int64) error {
	if n > resultMax {
		return tooLarge()
	}
	return ctx.scratch(n)
}

// scratch is room for memory that is not one value.
func (ctx *Context) scratch(n int64) error {
	if ctx == nil || n < types.LargeBytes/4 {
		return nil
	}
	if err := ctx.Check(); err != nil {
		return err
	}
	if err := ctx.Memory.Grow(n); err != nil {
		return err
	}
	ctx.pending += n
	return nil
}

// Settle releases the memory of the call that has returned.
func (ctx *Context) Settle() {
	if ctx != nil && ctx.pending != 0 {
		ctx.Memory.Shrink(ctx.pending)
		ctx.pending = 0
	}
}

// Keep passes the call's memory on to the caller, which gives it back when it drops the result.
func (ctx *Context) Keep() int64 {
	n := ctx.pending
	ctx.pending = 0
	return n
}

// Invoke calls a function that does not return a set. No argument is NULL, unless the function is CalledOnNull.
func Invoke(ctx *Context, o *Overload, args []types.Datum) (types.Datum, error) {
	return invoke(ctx, o.Eval, args)
}

// InvokeSet calls a set-returning function. The caller then owns the memory of its rows (Keep).
func InvokeSet(ctx *Context, o *Overload, args []types.Datum) ([]types.Row, error) {
	for i := range args {
		if args[i].Weight() == 0 {
			continue
		}
		need := args[i].Weight()
		if args[i].Phys() == types.PhysJSON {
			need = types.JSONBytes(args[i].Str())
		}
		if err := ctx.scratch(need); err != nil {
			return nil, err
		}
	}
	return o.Set(ctx, args)
}

func invoke(ctx *Context, eval evalN, args []types.Datum) (types.Datum, error) {
	large := int64(0)
	for i := range args {
		large += args[i].Weight()
	}
	if large == 0 {
		d, err := eval(ctx, args)
		if ctx != nil && ctx.pending != 0 {
			ctx.Settle()
		}
		return d, err
	}
	for i := range args {
		if args[i].Phys() == types.PhysJSON {
			large += types.JSONBytes(args[i].Str())
		}
	}
	held, err := ctx.reserve(large)
	if err != nil {
		return types.Null, err
	}
	d, err := eval(ctx, args)
	ctx.Settle()
	ctx.release(held)
	if n := len(d.Str()); n > 0 && err == nil && int64(n) < large/4 {
		// A small piece must not keep a large argument alive, which is no longer accounted for.
		d = d.Detach()
	}
	return d, err
}

// reserve takes the memory that a call with large arguments may need besides them: twice as much again.
func (ctx *Context) reserve(large int64) (int64, error) {
	if ctx == nil {
		return 0, nil
	}
	if err := ctx.Check(); err != nil {
		return 0, err
	}
	return 2 * large, ctx.Memory.Grow(2 * large)
}

func (ctx *Context) release(n int64) {
	if n != 0 {
		ctx.Memory.Shrink(n)
	}
}

// hold accounts for a large value while its owner works with it.
func (ctx *Context) hold(d *types.Datum) (int64, error) {
	w := d.Weight()
	if w == 0 || ctx == nil {
		return 0, nil
	}
	return w, ctx.Memory.Grow(w)
}

// text builds a string whose length is not known before: it takes memory as it grows. The first error stays; what is
// written afterwards is dropped.
type text struct {
	ctx   *Context
	b     strings.Builder
	taken int
	err   error
}

func (t *text) grow(n int) bool {
	if t.err != nil {
		return false
	}
	if need := t.b.Len() + n; need > t.taken {
		if need > resultMax {
			t.err = tooLarge()
			return false
		}
		// The builder doubles, and has both while it copies.
		more := max(need, 2*t.taken, types.LargeBytes) - t.taken
		if t.err = t.ctx.scratch(int64(more)); t.err != nil {
			return false
		}
		t.taken += more
	}
	return true
}

func (t *text) write(s string) {
	if t.grow(len(s)) {
		t.b.WriteString(s)
	}
}

func (t *text) rune(r rune) {
	if t.grow(utf8.UTFMax) {
		t.b.WriteRune(r)
	}
}

func (t *text) byte(c byte) {
	if t.grow(1) {
		t.b.WriteByte(c)
	}
}

// fill writes the first n characters of an endless repetition of s.
func (t *text) fill(s string, n int64) {
	if s == "" {
		return
	}
	if c := int64(utf8.RuneCountInString(s)); n >= c {
		if !t.grow(len(s) * int(min(n/c, resultMax))) {
			return
		}
		for ; n >= c; n -= c {
			t.b.WriteString(s)
		}
	}
	for _, r := range s {
		if n--; n < 0 {
			return
		}
		t.rune(r)
	}
}

func (t *text) datum() (types.Datum, error) {
	if t.err != nil {
		return types.Null, t.err
	}
	return types.NewString(t.b.String()), nil
}

// rows gathers the rows of a set-returning function.
type rows struct {
	ctx  *Context
	rows []types.Row
	// cells are rows of one column made at once.
	cells []types.Datum
	since int64
}

// rowsBetween is how many bytes of rows are gathered before they are accounted for.
const rowsBetween = 64 << 10

func (r *rows) add(values ...types.Datum) error {
	if len(r.rows) >= seriesMax {
		return setTooLarge()
	}
	n := int64(24 + 16) // the list doubles
	for i := range values {
		n += values[i].Bytes()
	}
	if r.since += n; r.since >= rowsBetween {
		if err := r.ctx.scratch(r.since); err != nil {
			return err
		}
		r.since = 0
	}
	if cap(r.cells)-len(r.cells) < len(values) {
		r.cells = make([]types.Datum, 0, max(len(values), min(2*cap(r.cells), 1024)))
	}
	at := len(r.cells)
	r.cells = append(r.cells, values...)
	r.rows = append(r.rows, r.cells[at:len(r.cells):len(r.cells)])
	return nil
}

// elemList gathers the elements of an array.
type elemList struct {
	ctx   *Context
	elems []types.Datum
	since int64
}

func (l *elemList) add(d types.Datum) error {
	if l.since += 2 * d.Bytes(); l.since >= rowsBetween { // the list doubles
		if err := l.ctx.scratch(l.since); err != nil {
			return err
		}
		l.since = 0
	}
	l.elems = append(l.elems, d)
	return nil
}

func (l *elemList) array(elem *types.T) types.Datum {
	return types.NewArray(&types.Array{Elem: elem, Elems: l.elems})
}

// pieceOf is a piece of a text as a value that does not keep a large text alive.
func pieceOf(whole, piece string) types.Datum {
	if len(whole) >= types.LargeBytes {
		piece = strings.Clone(piece)
	}
	return types.NewString(piece)
}
