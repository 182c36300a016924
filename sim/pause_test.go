package sim

import (
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A frozen clock stands still, and is right again when it is thawed, whatever changes were made meanwhile.
func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		time.Sleep(time.Second)
		wall, mono := c.Now(), c.Monotonic()
		c.Freeze()
		time.Sleep(5 * time.Second)
		if !c.Now().Equal(wall) || c.Monotonic() != mono {
			t.Errorf("went on from %s to %s", wall, c.Now())
		}
		c.Jump(time.Second)
		if got := c.Now().Sub(wall); got != time.Second {
			t.Errorf("a jump of a second moved it by %s", got)
		}
		c.Thaw()
		c.Thaw()
		if got := c.Monotonic() - mono; got != 5*time.Second {
			t.Errorf("%s passed", got)
		}
		if got := c.Now().Sub(wall); got != 6*time.Second {
			t.Errorf("%s passed on the wall, a jump of a second included", got)
		}
	})
}

// A crash in the middle of a sync loses the data of that sync, and nothing that an earlier one saved.
func TestCrashWithinSync(t *testing.T) {
	d := NewDisk(1)
	write := func(name string) {
		f, err := d.FS().Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := d.FS().OpenDir("")
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(name))
		f.Sync()
		dir.Sync()
		f.Close()
		dir.Close()
	}
	write("a")
	crashed := 0
	d.OnSync(1, func() {
		crashed++
		d.Crash(0)
	})
	write("b")
	if crashed != 1 {
		t.Fatalf("crashed %d times", crashed)
	}
	if _, err := d.FS().Stat("a"); err != nil {
		t.Error(err)
	}
	if _, err := d.FS().Stat("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("b is there: %v", err)
	}
	d.OnSync(1, func() { t.Error("called") })
	d.OnSync(0, nil)
	write("c")
}
