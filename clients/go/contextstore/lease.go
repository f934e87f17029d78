// The lease that a task is changed under, kept alive while the agent waits for its model.

package contextstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// lease renews itself after a third of its time without a change, until it is stopped.
type lease struct {
	renew   func(context.Context) (time.Duration, error)
	closing context.Context

	mu         sync.Mutex
	generation uint64
	last       uint64
	used       time.Time
	stopping   context.CancelFunc
	lost       error
}

// gone are reasons that say that the lease will not come back.
var gone = []Reason{StaleLease, TaskNotFound, WrongStatus, LeaseHeld}

// current is what every change carries; 0: no lease.
func (l *lease) current() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation
}

// newest is the newest generation there was, also after it has ended.
func (l *lease) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// take takes what the server granted, and keeps it alive.
func (l *lease) take(generation uint64, lives time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halt()
	ctx, stop := context.WithCancel(l.closing)
	l.generation, l.last, l.used, l.stopping, l.lost = generation, generation, time.Now(), stop, nil
	if lives > 0 {
		go l.keep(ctx, lives)
	}
}

// touch says that a change was accepted, which renews the lease.
func (l *lease) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = time.Now()
}

// stop renews no more. The lease ends by itself.
func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halt()
}

// halt is stop under the lock.
func (l *lease) halt() {
	if l.stopping != nil {
		l.stopping()
		l.stopping = nil
	}
}

// end says that the task was paused or has ended, and the lease with it.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halt()
	l.generation, l.lost = 0, nil
}

// lose keeps why the lease is gone, unless the task has ended by a call of this client.
func (l *lease) lose(ctx context.Context, failure *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.lost = failure
	}
}

func (l *lease) isLost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *lease) keep(ctx context.Context, lives time.Duration) {
	for {
		l.mu.Lock()
		due := time.Until(l.used.Add(lives / 3))
		l.mu.Unlock()
		if due > 0 {
			timer := time.NewTimer(due)
			select {
			case <-timer.C:
				continue
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		granted, err := l.renew(ctx)
		var failure *Error
		if errors.As(err, &failure) && slices.Contains(gone, failure.Reason) || ctx.Err() != nil {
			// Whoever writes next is told why.
			l.lose(ctx, failure)
			return
		}
		if err == nil {
			lives = granted
		}
		// Anything else may pass before the lease ends.
		l.touch()
	}
}
