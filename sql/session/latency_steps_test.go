package session

import (
	"testing"
	"time"
)

// TestLatencySteps: the steps follow each other without a gap, and each has its middle within it.
func TestLatencySteps(t *testing.T) {
	last := 0
	for us := time.Duration(0); us < 30*time.Minute/time.Microsecond; us += 1 + us/50 {
		d := us * time.Microsecond
		step := latencyStep(d)
		if step < last || step > last+1 {
			t.Fatalf("%v: step %d after %d", d, step, last)
		}
		last = step
		if middle := LatencyOf(step); (middle - d).Abs() > d/16+time.Microsecond {
			t.Errorf("%v is in the step of %v", d, middle)
		}
		if back := latencyStep(LatencyOf(step)); back != step {
			t.Errorf("the middle of step %d is in step %d", step, back)
		}
	}
	if latencyStep(24*time.Hour) != LatencySteps-1 || latencyStep(-time.Second) != 0 {
		t.Error("times out of bounds")
	}
}
