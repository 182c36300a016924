package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestFigure2 repeats two points of the figure: without indexes parallel commits gain nothing, with one they save the
// second round.
func TestFigure2(t *testing.T) {
	var progress strings.Builder
	r := run(t, config{clients: 3, length: 3 * time.Second, indexes: []int{0, 2}, progress: &progress})
	if t.Failed() {
		return
	}
	var out strings.Builder
	r.print(&out)
	t.Log("\n" + out.String())
	if c, g := r.cut(0), r.gain(0); c < -0.02 || c > 0.02 || g < -0.02 || g > 0.02 {
		t.Errorf("without indexes: latency cut by %f, throughput up by %f", c, g)
	}
	if c, g := r.cut(1), r.gain(1); c < 0.47 || c > 0.52 || g < 0.72 {
		t.Errorf("with two indexes: latency cut by %f, throughput up by %f", c, g)
	}
	for _, want := range []string{"parallel commits: 0 indexes: p50 ", "two phases: 2 indexes: 3 clients write for 4s\n"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("no %q in the progress:\n%s", want, progress.String())
		}
	}
	d := xml.NewDecoder(strings.NewReader(string(r.plot())))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
