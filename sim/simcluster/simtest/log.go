package simtest

import (
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"
)

// Watchdog writes a profile next to the file that MERIDIAN_DUMP names if a seed takes more than a minute of real time.
func Watchdog(seed int) *time.Timer {
	return time.AfterFunc(time.Minute, func() {
		name := os.Getenv("MERIDIAN_DUMP")
		if name == "" {
			return
		}
		f, err := os.Create(fmt.Sprintf("%s.%d.cpu", name, seed))
		if err != nil || pprof.StartCPUProfile(f) != nil {
			return
		}
		time.Sleep(5 * time.Second)
		pprof.StopCPUProfile()
		f.Close()
	})
}

// LogTo is where the nodes of a test log: nowhere, unless MERIDIAN_LOG is set.
func LogTo() io.Writer {
	if os.Getenv("MERIDIAN_LOG") != "" {
		return os.Stderr
	}
	return nil
}
