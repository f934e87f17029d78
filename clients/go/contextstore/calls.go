// How a call is made: its deadline and its retries. Knows no method of the service.

package contextstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// invoke makes a unary call, again and again while it fails in passing and there is time.
func invoke[Q, A any](
	ctx context.Context, c *Client, method func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	return invokeFor(ctx, c, c.timeout, method, request)
}

// invokeFor is invoke with another deadline for a context that has none.
func invokeFor[Q, A any](
	ctx context.Context, c *Client, timeout time.Duration,
	method func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	if message, ok := any(request).(proto.Message); ok {
		if err := c.prepare(ctx, message); err != nil {
			return nil, err
		}
	}
	patience := patience{lasts: c.retryFor}
	for {
		answer, err := method(ctx, request)
		if err == nil {
			c.reached.Store(true)
			return answer, nil
		}
		if failure := patience.pauseAfter(ctx, c.failed(ctx, methodOf[A](), err)); failure != nil {
			return nil, failure
		}
	}
}

// methodOf returns the name of the method whose answers have this type.
func methodOf[A any]() string {
	return strings.TrimSuffix(reflect.TypeFor[A]().Name(), "Response")
}

func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// again says when a stream that broke is opened once more.
type again int

const (
	// While nothing has come: it has no place to go on from.
	untilBegun again = iota
	// Always: open knows where to go on.
	always
	// Always, but progress is no proof that it will ever end: the server begins anew, and knows the call by its request id.
	repeated
)

// read reads a stream to its end, opening it again where that is allowed. It is cancelled when the reader stops early.
func read[A any](
	ctx context.Context, c *Client, when again, open func(context.Context) (grpc.ServerStreamingClient[A], error),
) iter.Seq2[*A, error] {
	return func(yield func(*A, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		patience := patience{lasts: c.retryFor}
		renewed := false
		for {
			received := false
			err := func() error {
				// An attempt that is given up holds nothing.
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				stream, err := open(ctx)
				if err != nil {
					return err
				}
				for {
					answer, err := stream.Recv()
					if err != nil {
						return err
					}
					received = true
					c.reached.Store(true)
					if !yield(answer, nil) {
						return errStopped
					}
				}
			}()
			if err == io.EOF || err == errStopped {
				return
			}
			failure := c.failed(ctx, methodOf[A](), err)
			if received {
				if when != repeated || !renewed {
					patience.renew()
					renewed = true
				}
				if when == always && failure.Reason == Stalled {
					// A reader that was too slow for the server's patience goes on where it is.
					continue
				}
			}
			if !received || when != untilBegun {
				failure = patience.pauseAfter(ctx, failure)
			}
			if failure != nil {
				yield(nil, failure)
				return
			}
		}
	}
}

var errStopped = errors.New("the reader has enough")

// patience waits between attempts, longer each time, until it has lasted for so long.
type patience struct {
	lasts time.Duration
	end   time.Time
	pause time.Duration
}

// renew says that what was tried made progress: what fails later is another failure.
func (p *patience) renew() {
	p.end = time.Time{}
}

// pauseAfter gives the error back if it does not pass, or if there is no time left for another attempt.
func (p *patience) pauseAfter(ctx context.Context, failure *Error) *Error {
	if !failure.passes() {
		return failure
	}
	now := time.Now()
	if p.end.IsZero() {
		p.end, p.pause = now.Add(p.lasts), 25*time.Millisecond
	}
	pause := failure.RetryAfter
	if pause == 0 {
		pause = p.pause/2 + rand.N(p.pause)
		p.pause = min(2*p.pause, time.Second)
	}
	until := now.Add(pause)
	if deadline, ok := ctx.Deadline(); until.After(p.end) || ok && until.After(deadline) {
		return failure
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return asError(ctx.Err())
	}
}
