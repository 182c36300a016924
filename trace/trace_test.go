package trace

import (
	"testing"
	"time"
)

func TestRing(t *testing.T) {
	r := New(2)
	for i := 1; i <= 3; i++ {
		r.Add(time.Duration(i)*time.Second, "step", "n", i)
	}
	if got, want := r.String(), "2s step n=2\n3s step n=3\n"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if e := r.Events(); len(e) != 2 || e[0].Seq != 2 {
		t.Fatal(e)
	}
	var none *Ring
	none.Add(0, "step")
	if none.Enabled() || none.Events() != nil || none.String() != "" {
		t.Fatal("a nil ring keeps nothing")
	}
}
