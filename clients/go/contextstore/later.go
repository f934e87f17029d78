// Appending without waiting: what was handed over is sent in the background, and is saved or reported.

package contextstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// keepStream is how long a stream without messages is kept for the next one.
const keepStream = time.Second

// AppendLater hands a message over, as [Task.Append] takes it or a [*pb.NewMessage], and does not wait until it is on disk. It
// waits for room only, if 512 messages or 16 MiB are on their way. Messages keep their order, also with those of other calls.
//
// A message that was handed over is either in the log exactly once, or it is reported: by the next call of the task that
// changes or reads it, by [Task.Flush], [Task.Close] or [Client.Close], or by the next AppendLater. Each of these returns an
// [*Error] whose NotAppended holds the messages that are not known to be in the log; append them again and each is there
// exactly once. The contexts of calls do not end what was handed over before. Close the client before the program ends:
//
//	defer client.Close()
//
// If AppendLater returns an error, its message was not handed over and is the last of NotAppended, also if it is too large; one
// that has no JSON is not.
func (t *Task) AppendLater(ctx context.Context, message any, options ...CallOption) error {
	made, err := NewMessage(message, options...)
	if err != nil {
		return err
	}
	request := t.streamed(made)
	err = t.client.prepare(ctx, request)
	if err == nil {
		err = t.later.hand(ctx, request)
	}
	if err != nil {
		return t.notAppended(err, made)
	}
	return nil
}

// Flush waits until everything that was handed to [Task.AppendLater] is on disk. Every call that changes or reads the task does
// this first. If its context ends, nothing is lost: the messages are still sent.
func (t *Task) Flush(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, t.client.timeout)
	defer cancel()
	return t.later.flush(ctx)
}

// settle is Flush, for a call that comes behind what was handed over.
func (t *Task) settle(ctx context.Context) error {
	return t.Flush(ctx)
}

// appender sends what was handed over for one task, in a goroutine that runs while there is something to send.
type appender struct {
	pipeline

	// Under the lock of the pipeline:
	running bool
	stop    context.CancelFunc
	// What has failed and was not reported, and what has failed last.
	failure *Error
	last    *Error
	// How often something has failed.
	failures int
}

// hand takes a message in when there is room, unless something has failed that was not reported yet.
func (a *appender) hand(ctx context.Context, request *pb.AppendMessagesRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if failure := a.report(); failure != nil {
			return failure
		}
		if a.task.client.handed.isClosed() {
			return errClosed()
		}
		if !a.isFull() {
			break
		}
		if err := a.wait(ctx, nil); err != nil {
			return asError(err)
		}
	}
	if !a.running {
		if !a.task.client.handed.add(a) {
			return errClosed()
		}
		ctx, stop := context.WithCancel(a.task.client.closing)
		a.running, a.stop = true, stop
		go a.work(ctx)
	}
	a.push(request)
	return nil
}

func errClosed() *Error {
	return newError(codes.Canceled, nil, "the client is closed")
}

// report takes what has failed, if it was not reported. The lock is held.
func (a *appender) report() *Error {
	if a.failure == nil {
		return nil
	}
	failure := *a.failure
	a.failure = nil
	if !a.running {
		a.task.client.handed.remove(a)
	}
	return &failure
}

// work sends until there is nothing to send any more.
func (a *appender) work(ctx context.Context) {
	for {
		err := a.run(ctx, keepStream, func(*pb.AppendMessageResponse) bool { return true })
		a.mu.Lock()
		if err == nil && len(a.waiting) > 0 {
			a.mu.Unlock()
			continue
		}
		if err != nil {
			a.fail(asError(err))
		}
		a.running = false
		a.stop()
		if a.failure == nil {
			a.task.client.handed.remove(a)
		}
		a.mu.Unlock()
		return
	}
}

// fail gives up what is not acknowledged. The lock is held.
func (a *appender) fail(err *Error) {
	if len(a.waiting) == 0 {
		return
	}
	failure := *err
	a.take(&failure)
	a.failure, a.last = &failure, &failure
	a.failures++
}

// flush waits until all that was handed over before it is settled.
func (a *appender) flush(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	target, failures := a.settled+uint64(len(a.waiting)), a.failures
	for {
		if failure := a.report(); failure != nil {
			return failure
		}
		if a.failures != failures {
			// Somebody else who waited has reported it, but this caller waits for the same messages.
			failure := *a.last
			return &failure
		}
		if a.settled >= target {
			return nil
		}
		if err := a.wait(ctx, nil); err != nil {
			failure := newError(asError(err).Code, err, "%v; %d messages are still being sent", err, len(a.waiting))
			return failure
		}
	}
}

// giveUp ends the work, and reports what is not known to be in the log.
func (a *appender) giveUp(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failure := a.report(); failure != nil {
		return failure
	}
	if len(a.waiting) == 0 {
		return nil
	}
	failure := newError(asError(err).Code, err, "the client was closed before all messages were acknowledged")
	// Others may wait for the same messages.
	a.take(failure)
	a.last = failure
	a.failures++
	a.stop()
	return failure
}

// appenders are those of a client that have something to send or to report.
type appenders struct {
	mu     sync.Mutex
	all    map[*appender]struct{}
	closed bool
}

// add registers one; false if the client is closed.
func (s *appenders) add(a *appender) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*appender]struct{}{}
	}
	s.all[a] = struct{}{}
	return true
}

func (s *appenders) remove(a *appender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, a)
}

func (s *appenders) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close takes nothing any more, waits until all is settled, and reports what is not.
func (s *appenders) close(timeout time.Duration) error {
	s.mu.Lock()
	s.closed = true
	var all []*appender
	for a := range s.all {
		all = append(all, a)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	failed := make([]error, len(all))
	var done sync.WaitGroup
	for at, a := range all {
		done.Go(func() {
			err := a.flush(ctx)
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = a.giveUp(err)
			}
			failed[at] = err
		})
	}
	done.Wait()
	return errors.Join(failed...)
}
