package machine

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp asks the operating system; it waits for nothing.
func hungUp(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true // closed here
	}
	gone := false
	if err := raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		for {
			_, err := unix.Poll(p, 0)
			if err != syscall.EINTR {
				break
			}
		}
		gone = p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	}); err != nil {
		return true
	}
	return gone
}
