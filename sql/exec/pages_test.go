package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// largeKV is a KV that refuses answers that are too large, as ranges do.
type largeKV struct {
	KV
	refused, parts int
}

func (l *largeKV) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	vs, err := l.KV.GetMany(ctx, ks, lock, wait)
	n := 0
	for _, v := range vs {
		n += len(v)
	}
	if n > kv.AnswerBytes && len(ks) > 1 {
		l.refused++
		return nil, &kv.AnswerTooLargeError{}
	}
	l.parts++
	return vs, err
}

func (l *largeKV) ScanMany(ctx context.Context, spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error) {
	lists, err := l.KV.ScanMany(ctx, spans, o)
	n := int64(0)
	for _, rows := range lists {
		n += pairBytes(rows)
	}
	if n > kv.AnswerBytes {
		l.refused++
		return nil, &kv.AnswerTooLargeError{}
	}
	return lists, err
}

// TestLargeRowsAreReadInParts: rows with too many bytes for one answer are read in parts, and the memory of each part is taken
// before the next is requested: a statement that would hold too much fails with 53200 (I9), and gives all of it back.
func TestLargeRowsAreReadInParts(t *testing.T) {
	db := newMiniDB(t, false)
	db.run("CREATE TABLE t (a int PRIMARY KEY, b int, s text);\n", false)
	var ks []keys.Key
	var spans []keys.Span
	for i := range 20 {
		k := keys.Key(fmt.Sprintf("zz%02d", i))
		db.kv.visible[string(k)] = []byte(strings.Repeat("x", 3<<20))
		ks = append(ks, k)
		spans = append(spans, keys.Span{Start: k, End: k.Next()})
	}
	db.kv.stale = true
	for _, limit := range []int64{100 << 20, 20 << 20} {
		for _, many := range []string{"keys", "spans"} {
			l := &largeKV{KV: db.kv}
			budget := memory.Limited(limit)
			r := &run{prog: &Program{}}
			r.start(t.Context(), &Env{Txn: l, Budget: budget})
			rd := &reader{r: r}
			n, got := 0, 0
			var err error
			if many == "keys" {
				var vs [][]byte
				vs, err = rd.getMany(ks, kv.NoLock, kv.Block)
				for _, v := range vs {
					n, got = n+len(v), got+1
				}
			} else {
				var lists [][]kv.KeyValue
				lists, err = rd.scanMany(spans, txn.ScanOptions{})
				for _, rows := range lists {
					for _, row := range rows {
						n, got = n+len(row.Value), got+1
					}
				}
			}
			if l.refused == 0 {
				t.Error("nothing was refused: the test is too small")
			}
			if limit < 60<<20 {
				var e *sqlstate.Error
				if !errors.As(err, &e) || e.Code != sqlstate.OutOfMemory {
					t.Errorf("%s in %d bytes: %v", many, limit, err)
				}
				if l.parts > 12 {
					t.Errorf("%s: %d parts were read in %d bytes", many, l.parts, limit)
				}
			} else if err != nil || got != 20 || n != 60<<20 || budget.Used() < 60<<20 {
				t.Errorf("%s: %d values of %d bytes, %d are accounted for; %v", many, got, n, budget.Used(), err)
			}
			rd.letGo()
			if budget.Used() != 0 {
				t.Errorf("%s: %d bytes are not given back", many, budget.Used())
			}
		}
	}
}
