// What only Unix has: locks of files, and sessions of processes.

//go:build unix

package contextstore

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// isLocked tells whether a server holds the lock of its data directory.
func isLocked(path string) (bool, error) {
	lock, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// ownSession has a process begin a session of its own: Ctrl-C is for this program, which may still have something to write.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}
