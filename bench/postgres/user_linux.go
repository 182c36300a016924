package postgres

import (
	"os"
	"os/exec"
	"syscall"
)

// nobody is the user that servers run as when the caller is root.
const nobody = 65534

// unprivileged makes a command run as nobody if this process is root, and end with it.
func unprivileged(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	cmd.SysProcAttr = attr
}
