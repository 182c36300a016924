package main

import "testing"

func TestGroupMemory(t *testing.T) {
	files := map[string]string{
		"/sys/fs/cgroup/a/b/memory.max":                         "max\n",
		"/sys/fs/cgroup/a/memory.max":                           "1073741824\n",
		"/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes":  "9223372036854771712\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes":           "536870912\n",
		"/sys/fs/cgroup/memory.max":                             "2147483648\n",
		"/sys/fs/cgroup/memory/docker/memory.limit_in_bytes":    "garbage",
		"/sys/fs/cgroup/memory/docker/x/y/memory.limit_in_byte": "1",
	}
	read := func(name string) string { return files[name] }
	for _, c := range []struct {
		groups string
		want   int64
	}{
		{"0::/a/b\n", 1 << 30},                            // the group above is smaller
		{"0::/elsewhere\n", 2 << 30},                      // a container's own root
		{"5:cpu,memory:/docker/x\n4:pids:/\n", 512 << 20}, // version 1
		{"4:pids:/\n", 0},
		{"", 0},
	} {
		if got := groupMemory(c.groups, read); got != c.want {
			t.Errorf("%q: %d, want %d", c.groups, got, c.want)
		}
	}
	if got := memTotal("MemFree: 1 kB\nMemTotal:       2048 kB\n"); got != 2<<20 {
		t.Errorf("MemTotal %d", got)
	}
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		total, cache int64
		sql          string
		wantSQL      int64
	}{
		{16 << 30, 256 << 20, "25%", 4 << 30},
		{2 << 30, 256 << 20, "25%", 512 << 20},
		{1 << 30, 128 << 20, "300MiB", 300 << 20},
	} {
		b, err := divide(c.total, c.cache, c.sql)
		if err != nil || b.sql != c.wantSQL {
			t.Errorf("%+v: %+v, %v", c, b, err)
		}
		if b.heap < b.sql || b.heap+c.cache+memtableBytes > c.total {
			t.Errorf("%+v: a heap of %d", c, b.heap)
		}
	}
	for _, bad := range []string{"", "0%", "95%", "x%", "much"} {
		if _, err := divide(1<<30, 0, bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestDefaultCache(t *testing.T) {
	for _, c := range []struct{ total, want int64 }{
		{32 << 30, 32 << 30 / 10}, {4 << 30, 4 << 30 / 10}, {2 << 30, 256 << 20}, {512 << 20, 256 << 20},
	} {
		if got := defaultCache(c.total); got != c.want {
			t.Errorf("of %d: %d, want %d", c.total, got, c.want)
		}
		if b, err := divide(c.total, defaultCache(c.total), sqlShare); c.total >= 2<<30 && (err != nil || b.heap+defaultCache(c.total)+memtableBytes > c.total) {
			t.Errorf("of %d: %+v, %v", c.total, b, err)
		}
	}
}
