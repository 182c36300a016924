package cputime

import (
	"os"
	"testing"
	"time"
)

func TestTreeTicks(t *testing.T) {
	line := "17 (a (b) c) S 4 17 17 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 1 0 100 0 0"
	s, err := parseStat(line)
	if err != nil || s != (stat{pid: 17, parent: 4, ticks: 110}) {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "17", "17 (a) S 4", "x (a) S 4 17 17 0 -1 4194560 100 200 0 0 11 22 33 44 20"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	all := []stat{{1, 0, 1000}, {4, 1, 1}, {17, 4, 10}, {18, 17, 100}, {19, 1, 5}}
	if n, err := treeTicks(all, []int{4, 19}); n != 116 || err != nil {
		t.Error(n, err)
	}
	if _, err := treeTicks(all, []int{5}); err == nil {
		t.Error("a process that has ended was counted")
	}
}

func TestCPUTimeOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	before, err := Of([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	// Until it is seen: on a busy machine this process may wait for long.
	for begin := time.Now(); ; {
		after, err := Of([]int{os.Getpid()})
		if err != nil || after-before > 10*time.Second || time.Since(begin) > 10*time.Second {
			t.Fatal(after-before, err)
		}
		if after-before >= 20*time.Millisecond {
			break
		}
	}
}
