// The same where files cannot be locked as on Unix.

//go:build !unix

package contextstore

import "errors"

func isLocked(string) (bool, error) {
	return false, errors.New("whether its server runs cannot be checked on this system; use WithTokenFile")
}
