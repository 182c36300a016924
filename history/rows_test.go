package history_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"meridian/history"
)

// TestRowsByHand: statements as "start end kind count number", in milliseconds; an end of zero is an answer that did not come.
func TestRowsByHand(t *testing.T) {
	type op struct {
		call, ret int
		kind      history.RowKind
		rows      int
		number    int64
	}
	const none = history.Untold
	for _, x := range []struct {
		name string
		ops  []op
		bad  bool
	}{
		{"an update finds what was inserted", []op{{0, 10, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 1, 1}}, false},
		{"an update misses what was inserted", []op{{0, 10, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 0, none}}, true},
		{"it may miss what is being inserted", []op{{0, 25, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 0, none}}, false},
		{"an update in the moment of the answer", []op{{0, 10, history.RowInsert, 1, 0}, {10, 30, history.RowUpdate, 0, none}}, true},
		{"an update counts a deleted row", []op{{0, 10, history.RowInsert, 1, 0}, {20, 30, history.RowDelete, 1, none}, {40, 50, history.RowUpdate, 1, none}}, true},
		{"two deletions count one row", []op{{0, 10, history.RowInsert, 1, 0}, {20, 30, history.RowDelete, 1, none}, {20, 50, history.RowDelete, 1, none}}, true},
		{"two increments tell one number", []op{{0, 10, history.RowInsert, 1, 0}, {20, 50, history.RowUpdate, 1, 1}, {20, 50, history.RowUpdate, 1, 1}}, true},
		{"a second insertion", []op{{0, 10, history.RowInsert, 1, 0}, {20, 50, history.RowInsert, 1, 0}}, true},
		{"a duplicate of nothing", []op{{20, 50, history.RowInsert, 0, 0}}, true},
		{"a duplicate", []op{{0, 10, history.RowInsert, 1, 0}, {20, 50, history.RowInsert, 0, 0}}, false},
		{"upserts", []op{{0, 10, history.RowUpsert, 1, 0}, {20, 50, history.RowUpsert, 1, 1}, {60, 70, history.RowUpdate, 1, 2}}, false},
		{"an upsert that replaces a row", []op{{0, 10, history.RowInsert, 1, 5}, {20, 50, history.RowUpsert, 1, 0}}, true},
		{"an unknown insertion was done", []op{{0, 0, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 1, 1}}, false},
		{"an unknown insertion was done later", []op{{0, 0, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 0, none}, {40, 50, history.RowUpdate, 1, 1}}, false},
		{"an unknown insertion was undone", []op{{0, 0, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 1, 1}, {40, 50, history.RowUpdate, 0, none}}, true},
		{"a read within its bound", []op{{0, 10, history.RowInsert, 1, 0}, {1005, 1006, history.RowRead, 0, none}}, false},
		{"a read beyond its bound", []op{{0, 10, history.RowInsert, 1, 0}, {1015, 1016, history.RowRead, 0, none}}, true},
		{"an old number", []op{{0, 10, history.RowInsert, 1, 0}, {20, 30, history.RowUpdate, 1, 1}, {1045, 1046, history.RowRead, 1, 0}}, true},
		{"a deleted row", []op{{0, 10, history.RowInsert, 1, 0}, {20, 30, history.RowDelete, 1, none}, {1045, 1046, history.RowRead, 1, 0}}, true},
	} {
		var r history.Rows
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		for i, o := range x.ops {
			in := history.RowOp{Client: i, Key: 7, Kind: o.kind, Number: o.number, Call: ms(o.call)}
			if o.kind == history.RowRead {
				in.Within = time.Second
			}
			if p := r.Begin(in); o.ret == 0 {
				r.Unknown(p, "lost")
			} else {
				r.OK(p, o.rows, o.number, ms(o.ret))
			}
		}
		err := r.Check(time.Minute)
		if e := (*history.RowsError)(nil); x.bad != errors.As(err, &e) || x.bad && !strings.Contains(err.Error(), "row 7") {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// TestRowsOfOneTruth: histories of clients at a true row have an order; those of which one answer was changed rarely do.
func TestRowsOfOneTruth(t *testing.T) {
	found := 0
	const runs = 200
	for seed := range uint64(runs) {
		for _, lie := range []bool{false, true} {
			dice := rand.New(rand.NewPCG(seed, 7))
			var r history.Rows
			there, n, now := false, int64(0), time.Duration(0)
			for i := range 60 {
				o := history.RowOp{Client: i % 3, Kind: history.RowKind(dice.IntN(5)), Number: history.Untold, Call: now}
				if o.Kind == history.RowInsert {
					o.Number = 0
				}
				if o.Kind == history.RowRead {
					o.Within = time.Millisecond
				}
				p := r.Begin(o)
				rows, number := 0, int64(history.Untold)
				if there || o.Kind == history.RowUpsert || o.Kind == history.RowInsert {
					rows = 1
				}
				switch {
				case o.Kind == history.RowInsert && there:
					rows = 0
				case o.Kind == history.RowInsert, o.Kind == history.RowUpsert && !there:
					there, n, number = true, 0, 0
				case o.Kind == history.RowDelete:
					there = false
				case there && o.Kind != history.RowRead:
					n++
					number = n
				case there:
					number = n
				}
				if lie && i == 40 {
					rows = 1 - rows
				}
				if now += 2 * time.Millisecond; dice.IntN(8) == 0 && i != 40 {
					r.Unknown(p, "")
				} else {
					r.OK(p, rows, number, now)
				}
			}
			switch err := r.Check(time.Minute); {
			case err != nil && !lie:
				t.Fatalf("seed %d: %v", seed, err)
			case err != nil:
				found++
			}
		}
	}
	if t.Logf("%d of %d lies were found", found, runs); found < runs*3/5 {
		t.Errorf("%d of %d lies were found", found, runs)
	}
}
