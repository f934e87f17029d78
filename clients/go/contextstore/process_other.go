// The same where there is no Unix.

//go:build !unix

package contextstore

import (
	"errors"
	"syscall"
)

func isLocked(string) (bool, error) {
	return false, errors.New("whether its server runs cannot be checked on this system; use WithTokenFile")
}

func ownSession() *syscall.SysProcAttr {
	return nil
}
