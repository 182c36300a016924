package scalar_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"meridian/sql/memory"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// asked is a context that counts how often it is asked whether it has ended, and ends at a given count.
type asked struct {
	context.Context
	n, last int
}

func (a *asked) Err() error {
	if a.n++; a.last > 0 && a.n > a.last {
		return context.Canceled
	}
	return nil
}

// largeArgs are large values of each type, in profiles that make functions' results large in different ways.
func largeArgs(t *types.T, profile int) (types.Datum, bool) {
	text := []string{
		strings.Repeat("a,b\n", 1<<16),           // many pieces
		strings.Repeat("é", 1<<16),               // not ASCII
		strings.Repeat("a", 1<<18),               // one piece
		"%" + strings.Repeat("aA%", 1<<12) + "s", // a pattern, a format
	}
	switch t.Kind {
	case types.KindText, types.KindAny, types.KindAnyElement, types.KindUnknown:
		return types.NewString(text[profile%len(text)]), true
	case types.KindBPChar, types.KindVarChar:
		return types.NewString(text[profile%len(text)]), true
	case types.KindBytes:
		return types.NewBytes(text[profile%len(text)]), true
	case types.KindJSON, types.KindJSONB:
		j := []string{
			"[" + strings.Repeat("1, ", 1<<14) + "1]",
			`{"a": [` + strings.Repeat(`"x", `, 1<<14) + `"y"]}`,
			strings.Repeat("[", 3000) + strings.Repeat("]", 3000),
			`["` + strings.Repeat("x", 1<<18) + `"]`,
		}
		return types.NewJSON(j[profile%len(j)]), true
	case types.KindArray, types.KindAnyArray:
		elem := types.Text
		if t.Elem != nil {
			elem = t.Elem
		}
		a := &types.Array{Elem: elem}
		for i := range 1 << 12 {
			switch {
			case elem.IsString():
				a.Elems = append(a.Elems, types.NewString(fmt.Sprint("element ", i)))
			case elem.Phys() == types.PhysInt:
				a.Elems = append(a.Elems, types.NewInt(int64(i)))
			default:
				return types.Null, false
			}
		}
		if t.Kind == types.KindArray && elem.Phys() == types.PhysInt { // of dimensions
			a.Elems = a.Elems[1:2]
			a.Elems[0] = types.NewInt(1 << 18)
		}
		return types.NewArray(a), true
	case types.KindInt2:
		return types.NewInt(30000), true
	case types.KindInt4, types.KindInt8:
		return types.NewInt([]int64{1 << 18, 1, 1 << 30, 5}[profile%4]), true
	case types.KindBool:
		return types.NewBool(true), true
	case types.KindFloat8, types.KindFloat4:
		return types.NewFloat(1e6), true
	case types.KindDecimal:
		d, err := types.ParseText(types.Decimal, []string{strings.Repeat("9", 20000), "0." + strings.Repeat("7", 8000), "300000", "1.0000001"}[profile%4], nil)
		return d, err == nil
	case types.KindDate:
		return types.NewDate(7000), true
	case types.KindTimestamp, types.KindTimestampTZ:
		return types.NewTimestamp(7000 * 86400e6), true
	case types.KindInterval:
		return types.NewInterval(0, 1, 0), true
	}
	return types.Null, false
}

// small arguments where a large one of every argument is refused at once, or a mistake.
func mixedArgs(o *scalar.Overload, profile int) ([]types.Datum, bool) {
	var args []types.Datum
	for i, t := range o.Args {
		p := profile % 4
		d, ok := largeArgs(t, p)
		if !ok {
			return nil, false
		}
		// In profiles from the fourth on only the first argument is large.
		if i > 0 && profile >= 4 && d.Weight() != 0 {
			switch d.Phys() {
			case types.PhysString:
				d = types.NewString([]string{"", "a", ",", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}[(profile+i)%4])
			case types.PhysBytes:
				d = types.NewBytes("a")
			case types.PhysJSON:
				d = types.NewJSON(`"x"`)
			case types.PhysArray:
				d = types.NewArray(&types.Array{Elem: types.Text, Elems: []types.Datum{types.NewString("0")}})
			}
		}
		args = append(args, d)
	}
	return args, true
}

// unboundedNames are functions that depend on the session, and compute nothing from their arguments.
var unboundedNames = map[string]bool{"pg_sleep": true}

// TestLargeArguments calls every function and operator of the table with large arguments and little memory. Each must return, or
// fail with 53200, 54000 or an error about the arguments; it must not allocate much more than it has accounted for (scalar.S6);
// and if it runs long, it must check whether it was cancelled (scalar.S7).
func TestLargeArguments(t *testing.T) {
	r := system.NewBuiltins()
	const limit = 4 << 20
	called, refused := 0, 0
	for _, o := range r.All() {
		if unboundedNames[o.Name] || o.Volatility == scalar.Volatile || o.Eval == nil && o.Set == nil && o.TypedEval == nil {
			continue
		}
		for profile := range 8 {
			args, ok := mixedArgs(o, profile)
			if !ok || len(args) == 0 {
				break
			}
			called++
			account := memory.Limited(limit)
			end := &asked{Context: context.Background(), last: 12}
			ctx := &scalar.Context{Context: end, Memory: account, Location: time.UTC}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			err := callLarge(ctx, o, args)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			var e *sqlstate.Error
			if errors.As(err, &e) {
				switch e.Code {
				case sqlstate.OutOfMemory, sqlstate.ProgramLimitExceeded:
					refused++
				case sqlstate.InternalError:
					t.Errorf("%s%v: %v", o.Name, o.Args, err)
				}
			}
			ctx.Settle()
			if account.Used() != 0 && err != errAsksSession {
				t.Errorf("%s%v, profile %d: %d bytes are left", o.Name, o.Args, profile, account.Used())
			}
			// The allocated bytes include garbage; a builder that doubles has allocated twice what it holds. A series of
			// numerics makes one number after the other, of a bounded number of digits.
			if made := int64(after.TotalAlloc - before.TotalAlloc); made > 4*limit && args[0].Phys() != types.PhysDecimal {
				t.Errorf("%s%v, profile %d: %d MiB were allocated with %d MiB to take (%v)", o.Name, o.Args, profile, made>>20, limit>>20, err)
			}
			// Numerics are bounded by their digits; a call of a second may take some seconds on a busy machine.
			if took > 10*time.Second && float64(end.n) < took.Seconds()/4 && args[0].Phys() != types.PhysDecimal {
				t.Errorf("%s%v, profile %d: %v, and was asked %d times whether it was cancelled", o.Name, o.Args, profile, took, end.n)
			}
			if testing.Verbose() && took > 300*time.Millisecond {
				t.Logf("%s%v, profile %d: %v, asked %d times, %v", o.Name, o.Args, profile, took, end.n, err)
			}
			if end.n > 1 && !errors.Is(err, context.Canceled) {
				// If the call is cancelled on the way, it returns that error.
				ctx := &scalar.Context{Context: &asked{Context: context.Background(), last: end.n / 2}, Memory: memory.Limited(limit), Location: time.UTC}
				if err := callLarge(ctx, o, args); !errors.Is(err, context.Canceled) {
					t.Errorf("%s%v, profile %d: cancelled on the way: %v", o.Name, o.Args, profile, err)
				}
			}
		}
	}
	if called < 500 || refused < 30 {
		t.Errorf("%d calls, %d refused: the test does not reach what it is for", called, refused)
	}
}

var errAsksSession = errors.New("the function asks its session")

// noEnvironment stands for the session: a function that asks it anything computes nothing from its arguments itself.
type noEnvironment struct{ system.Environment }

// callLarge calls a function as an expression and PROJECT SET do.
func callLarge(ctx *scalar.Context, o *scalar.Overload, args []types.Datum) (err error) {
	ctx.Env = noEnvironment{}
	defer func() {
		if e, ok := recover().(runtime.Error); ok {
			if !strings.Contains(e.Error(), "nil pointer") {
				panic(e)
			}
			err = errAsksSession
		}
	}()
	if o.Set != nil {
		_, err := scalar.InvokeSet(ctx, o, args)
		return err
	}
	eval := o.Eval
	if o.TypedEval != nil {
		ts := make([]*types.T, len(o.Args))
		for i, a := range o.Args {
			switch ts[i] = a; a.Kind {
			case types.KindAny, types.KindAnyElement:
				ts[i] = types.Text
			case types.KindAnyArray:
				ts[i] = types.ArrayOf(types.Text)
			}
		}
		eval = o.TypedEval(ts)
	}
	called := *o
	called.Eval = eval
	_, err = scalar.Invoke(ctx, &called, args)
	return err
}

// TestPatternsAsk: matching a long text ends when the statement is cancelled, wherever the pattern is used.
func TestPatternsAsk(t *testing.T) {
	long := types.NewString(strings.Repeat("ab", 1<<19))
	r := system.NewBuiltins()
	for _, c := range []struct {
		list []*scalar.Overload
		args []types.Datum
	}{
		{r.Operators("~"), []types.Datum{long, types.NewString("(a|b)*c")}},
		{r.Operators("~~"), []types.Datum{long, types.NewString("%" + strings.Repeat("a_", 500) + "c%")}},
		{r.Functions("regexp_replace"), []types.Datum{long, types.NewString("a"), types.NewString("b"), types.NewString("g")}},
		{r.Functions("regexp_replace"), []types.Datum{long, types.NewString("a"), types.NewString("b"), types.NewInt(2), types.NewInt(0)}},
		{r.Functions("regexp_count"), []types.Datum{long, types.NewString("b")}},
		{r.Functions("regexp_split_to_array"), []types.Datum{long, types.NewString("b")}},
		{r.Functions("regexp_split_to_table"), []types.Datum{long, types.NewString("b")}},
		{r.Functions("regexp_matches"), []types.Datum{long, types.NewString("b"), types.NewString("g")}},
		{r.Functions("regexp_match"), []types.Datum{long, types.NewString("(a|b)*c")}},
	} {
		for _, o := range c.list {
			if len(o.Args) != len(c.args) || o.Args[0].Kind != types.KindText || len(c.args) > 3 && o.Args[3].Phys() != c.args[3].Phys() {
				continue
			}
			ctx := &scalar.Context{Context: &asked{Context: context.Background(), last: 3}, Memory: memory.Limited(1 << 30)}
			if err := callLarge(ctx, o, c.args); !errors.Is(err, context.Canceled) {
				t.Errorf("%s%v: %v", o.Name, o.Args, err)
			}
		}
	}
}
