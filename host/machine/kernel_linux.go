package machine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"meridian/host"
)

// KernelTime implements host.KernelClock by adjtimex, which needs no rights if it changes nothing.
func (c *Clock) KernelTime() (host.KernelTime, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return host.KernelTime{}, fmt.Errorf("adjtimex: %w", err)
	}
	sub := time.Duration(t.Time.Usec)
	if t.Status&unix.STA_NANO == 0 {
		sub *= time.Microsecond
	}
	return host.KernelTime{
		Wall:         time.Unix(int64(t.Time.Sec), int64(sub)).Add(c.offset),
		MaxError:     time.Duration(t.Maxerror) * time.Microsecond,
		Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
	}, nil
}
