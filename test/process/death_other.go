//go:build !linux

package process

import "syscall"

// dieWithParent cannot be promised here.
func dieWithParent() *syscall.SysProcAttr { return nil }
