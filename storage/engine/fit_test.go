package engine

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sizedFS is a disk of a given size.
type sizedFS struct {
	vfs.FS
	total uint64
}

func (f sizedFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: f.total, AvailBytes: f.total}, nil
}

// TestSmallDisk: the logs that a store keeps for later take a small part of a small disk (engine.EN2).
func TestSmallDisk(t *testing.T) {
	for _, c := range []struct{ disk, asked, want uint64 }{
		{420 << 20, 64 << 20, 4 << 20},
		{2 << 30, 64 << 20, 16 << 20},
		{100 << 30, 64 << 20, 64 << 20},
		{420 << 20, 1 << 20, 1 << 20},
		{0, 64 << 20, 64 << 20}, // a disk that does not say
	} {
		e := open(t, sizedFS{vfs.NewMem(), c.disk}, Options{MemTableBytes: c.asked, ReserveBytes: -1})
		if got := e.opts.MemTableBytes; got != c.want {
			t.Errorf("a disk of %d MiB has memtables of %d bytes, want %d", c.disk>>20, got, c.want)
		}
	}
}
