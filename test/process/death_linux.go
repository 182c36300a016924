package process

import "syscall"

// dieWithParent has the kernel kill the child when the parent ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
