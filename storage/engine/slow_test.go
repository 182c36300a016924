package engine

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
)

// slowFS is a host.SlowDisk that says when somebody waits for it.
type slowFS struct {
	vfs.FS
	waiting func()
}

func (s *slowFS) BeginSync() func() { return s.waiting }

// way is how durability is asked for.
type way struct {
	name   string
	commit func(e *Engine, b *Batch) error
}

func ways() []way {
	return []way{
		{"Commit", func(_ *Engine, b *Batch) error { return b.Commit(true) }},
		{"SyncWait", func(e *Engine, b *Batch) error {
			if err := b.CommitNoSyncWait(); err != nil {
				return err
			}
			return b.SyncWait()
		}},
		{"Sync", func(e *Engine, b *Batch) error {
			if err := b.Commit(false); err != nil {
				return err
			}
			return e.Sync()
		}},
	}
}

// TestSlowDisk: whoever asks for durability waits for the disk, and the log is synced after the wait, not before: a crash in
// the middle loses what nobody was promised, and one after the answer loses nothing.
func TestSlowDisk(t *testing.T) {
	for _, how := range ways() {
		t.Run(how.name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			slow := &slowFS{FS: mem}
			e := open(t, slow, Options{ReserveBytes: -1})
			defer e.Close()
			waits := 0
			var within *vfs.MemFS
			slow.waiting = func() {
				waits++
				within = mem.CrashClone(vfs.CrashCloneCfg{})
				if v, err := e.Get(keys.Key("k")); string(v) != "v" || err != nil {
					t.Errorf("not visible before it is durable: %q, %v", v, err)
				}
			}
			b := e.NewBatch()
			defer b.Close()
			b.Put(keys.Key("k"), []byte("v"))
			if err := how.commit(e, b); err != nil || waits != 1 {
				t.Fatalf("%v, after %d waits", err, waits)
			}
			for _, c := range []struct {
				when string
				fs   vfs.FS
				want string
			}{{"while it was waited for", within, ""}, {"after the answer", mem.CrashClone(vfs.CrashCloneCfg{}), "v"}} {
				after := open(t, c.fs, Options{ReserveBytes: -1})
				if v, err := after.Get(keys.Key("k")); string(v) != c.want || err != nil {
					t.Errorf("after a crash %s: %q, %v", c.when, v, err)
				}
				after.Close()
			}
		})
	}
}
