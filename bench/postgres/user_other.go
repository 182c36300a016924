//go:build !linux

package postgres

import "os/exec"

// nobody is the user that servers run as when the caller is root; here the caller must not be root.
const nobody = 65534

func unprivileged(*exec.Cmd) {}
