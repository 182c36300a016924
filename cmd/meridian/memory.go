package main

import (
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// The memory of a node's process is one figure, the machine's or its control group's, of which the parts are taken:
//
//	--max-memory       the memory of the machine or the group, or the given size
//	  --cache          the block cache, outside of the Go heap: a tenth, and at least 256 MiB
//	  memtables        64 MiB, outside as well
//	  a tenth          stacks, the runtime, cgo, the kernel's own memory
//	  GOMEMLIMIT       the rest: the soft limit of the Go heap
//	    --max-sql-memory  the memory of statements: a quarter of --max-memory. The rest of the heap is raft logs, messages,
//	                   catalogue, and garbage that is not collected yet: as much as is live, while the limit is far.

const (
	memtableBytes = 64 << 20
	// cacheLeast is the least block cache that a node takes by itself. Above it the cache is a cacheShare-th of the memory: a block that is not in it is
	// read, checked and decompressed for one row, which is a sixth of the CPU of a select by key (docs/performance.md).
	cacheLeast = 256 << 20
	cacheShare = 10
	// sqlShare is the default of --max-sql-memory. Of a machine with 2 GiB, 512 MiB are the statements', and 256 MiB at
	// most one session's; with garbage twice that, in addition to 256 MiB of cache, leaves room for a page cache.
	sqlShare = "25%"
	// unknownMemory is assumed where neither the machine nor a control group tells its memory.
	unknownMemory = 4 << 30
)

// budget is how a process divides its memory.
type budget struct{ total, sql, heap int64 }

// defaultCache is the size of the block cache of a node with as much memory as total.
func defaultCache(total int64) int64 { return max(total/cacheShare, cacheLeast) }

// divide computes the parts of total bytes; sql is a size or a percentage.
func divide(total, cache int64, sql string) (budget, error) {
	b := budget{total: total}
	if p, ok := strings.CutSuffix(sql, "%"); ok {
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || !(v > 0 && v <= 90) {
			return b, fmt.Errorf("%q is not a percentage between 0 and 90", sql)
		}
		b.sql = int64(float64(total) * v / 100)
	} else {
		v, err := parseBytes(sql)
		if err != nil {
			return b, err
		}
		b.sql = v
	}
	// The heap must hold the memory of statements, and the rest of the node.
	b.heap = max(total-cache-memtableBytes-total/10, b.sql+b.sql/4+64<<20)
	return b, nil
}

// limitHeap sets the limit of the Go heap, unless the operator has set GOMEMLIMIT.
func (b budget) limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(b.heap)
	}
}

// availableMemory is the memory of the machine, or the limit of the process's control group if that is less.
func availableMemory() int64 {
	total := memTotal(readFile("/proc/meminfo"))
	if g := groupMemory(readFile("/proc/self/cgroup"), readFile); g > 0 && (total == 0 || g < total) {
		total = g
	}
	if total == 0 {
		return unknownMemory
	}
	return total
}

func readFile(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

// memTotal reads /proc/meminfo.
func memTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// groupMemory is the least limit of the process's control group and those above it, zero if there is none. groups is
// /proc/self/cgroup: "0::/path" for version 2, "N:memory:/path" for version 1.
func groupMemory(groups string, read func(name string) string) int64 {
	least := int64(0)
	look := func(root, dir, file string) {
		// In a container the path may be the host's, which does not exist there: then the root of the hierarchy is the
		// container's own group.
		for d := path.Clean("/" + dir); ; d = path.Dir(d) {
			v, err := strconv.ParseInt(strings.TrimSpace(read(path.Join(root, d, file))), 10, 64)
			// Version 1 says "no limit" by a number close to the greatest.
			if err == nil && v > 0 && v < math.MaxInt64/2 && (least == 0 || v < least) {
				least = v
			}
			if d == "/" {
				return
			}
		}
	}
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) < 3:
		case f[0] == "0" && f[1] == "":
			look("/sys/fs/cgroup", f[2], "memory.max")
		case strings.Contains(","+f[1]+",", ",memory,"):
			look("/sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes")
		}
	}
	return least
}
