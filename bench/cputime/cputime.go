// Package cputime measures the processor time that servers and all their child processes have used.
package cputime

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of /proc/PID/stat; Linux has it at 100 on every machine that Go runs on.
const ticksPerSecond = 100

// stat has the fields of one process's /proc/PID/stat.
type stat struct {
	pid, parent int
	// ticks is user and system time, its own and of children that ended and were waited for.
	ticks int64
}

// parseStat reads one line of /proc/PID/stat. The second field is a name in parentheses that may hold anything.
func parseStat(line string) (stat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return stat{}, fmt.Errorf("not a process's line: %q", line)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return stat{}, err
	}
	f := strings.Fields(line[end+1:])
	if len(f) < 15 {
		return stat{}, fmt.Errorf("a short line: %q", line)
	}
	s := stat{pid: pid}
	if s.parent, err = strconv.Atoi(f[1]); err != nil {
		return s, err
	}
	for _, v := range f[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return s, err
		}
		s.ticks += n
	}
	return s, nil
}

// treeTicks adds up the processes of some trees.
func treeTicks(all []stat, roots []int) (int64, error) {
	children := make(map[int][]int)
	byPID := make(map[int]stat)
	for _, s := range all {
		children[s.parent] = append(children[s.parent], s.pid)
		byPID[s.pid] = s
	}
	var sum int64
	for _, r := range roots {
		if _, ok := byPID[r]; !ok {
			return 0, fmt.Errorf("process %d has ended", r)
		}
		for todo := []int{r}; len(todo) > 0; {
			p := todo[0]
			todo = append(todo[1:], children[p]...)
			sum += byPID[p].ticks
		}
	}
	return sum, nil
}

// Of returns the processor time that trees of processes have used so far, user and system.
func Of(roots []int) (time.Duration, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var all []stat
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has just ended; its parent has its time
		}
		s, err := parseStat(string(raw))
		if err != nil {
			return 0, err
		}
		all = append(all, s)
	}
	ticks, err := treeTicks(all, roots)
	return time.Duration(ticks) * time.Second / ticksPerSecond, err
}
