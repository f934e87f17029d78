// Appending many messages from one source, with an acknowledgement for each.

package contextstore

import (
	"context"
	"iter"
	"sync"

	"google.golang.org/grpc/codes"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// AppendMany appends messages, each as [Task.Append] takes them or a [*pb.NewMessage], without waiting for each, and gives an
// acknowledgement for each, in order. Nothing is sent before the loop begins, and at most 512 messages wait for theirs. A
// broken connection is taken up again.
//
// The first message that is refused ends it with an [*Error]: its Index is the number of that message, from 0. All before it
// are in the log, none behind it is, and NotAppended holds it and those that the source had given already. A message that
// cannot be encoded or is too large ends it in the same way, and is not in NotAppended. A source that fails gives its error in the place of a message: all before it are
// appended, and then the loop gets an [*Error] that wraps it. A panic of the source goes on in the loop.
//
// The source runs in a goroutine of its own, which ends once it gives one more message after the loop was left.
func (t *Task) AppendMany(
	ctx context.Context, messages iter.Seq[any],
) iter.Seq2[*pb.AppendMessagesResponse, error] {
	return func(yield func(*pb.AppendMessagesResponse, error) bool) {
		if err := t.settle(ctx); err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := &source{pipeline: pipeline{task: t}}
		go s.feed(ctx, messages)
		err := s.run(ctx, 0, func(answer *pb.AppendMessagesResponse) bool { return yield(answer, nil) })
		if problem := s.leave(); problem != nil && err == nil {
			err = problem
		}
		if err != nil && err != errStopped {
			failure := *asError(err)
			s.mu.Lock()
			failure.Index = int(s.settled)
			s.take(&failure)
			s.mu.Unlock()
			yield(nil, &failure)
		}
	}
}

// source feeds a pipeline with what a sequence gives.
type source struct {
	pipeline

	state sync.Mutex
	// Why it ended early.
	problem error
	// What it panicked with.
	panicked any
	// Whether the loop over the acknowledgements has ended.
	left bool
}

// feed takes messages until there are no more, one cannot be sent, or the context ends.
func (s *source) feed(ctx context.Context, messages iter.Seq[any]) {
	returned := false
	defer func() {
		// Before the pipeline ends: the loop asks for it then.
		panicked := recover()
		s.state.Lock()
		left := s.left
		switch {
		case panicked != nil:
			s.panicked = panicked
		case !returned:
			s.problem = newError(codes.Aborted, nil, "the source of the messages ended its goroutine (runtime.Goexit)")
		}
		s.state.Unlock()
		if panicked != nil && left {
			// There is no loop any more that it could go on in.
			panic(panicked)
		}
		s.finish()
	}()
	for message := range messages {
		err := s.hand(ctx, message)
		if err != nil {
			if ctx.Err() == nil {
				s.state.Lock()
				s.problem = err
				s.state.Unlock()
			}
			break
		}
	}
	returned = true
}

// hand takes one message in.
func (s *source) hand(ctx context.Context, message any) error {
	if failed, ok := message.(error); ok {
		return newError(codes.Aborted, failed, "the source of the messages failed: %v", failed)
	}
	made, err := NewMessage(message)
	if err != nil {
		return err
	}
	request := s.task.streamed(made)
	if err := s.task.client.prepare(ctx, request); err != nil {
		return err
	}
	return s.add(ctx, request)
}

// leave says that the loop has ended, and answers what the source failed with; a panic of it goes on here.
func (s *source) leave() error {
	s.state.Lock()
	defer s.state.Unlock()
	s.left = true
	if s.panicked != nil {
		panic(s.panicked)
	}
	return s.problem
}
