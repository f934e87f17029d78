// Makes the ids that the client gives: of tasks, of calls and of itself.

package contextstore

import (
	"crypto/rand"
	"fmt"
	"time"
)

// newID names one call, or one client.
func newID() string {
	return rand.Text()
}

// newTaskUUID is a UUIDv7: it sorts by the time it was made.
func newTaskUUID() string {
	var b [16]byte
	rand.Read(b[:])
	for at, ms := 5, time.Now().UnixMilli(); at >= 0; at, ms = at-1, ms>>8 {
		b[at] = byte(ms)
	}
	b[6] = 0x70 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
