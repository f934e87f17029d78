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
// are in the log, none behind it is, and NotAppended holds it and those that the source had given already. A message that is
// too large, or has no JSON, ends it in the same way; one that has no JSON is not in NotAppended. A source that fails gives
// its error in the place of a message: all before it are appended, and then the loop gets an [*Error] that wraps it. A panic of
// the source goes on in the loop.
//
// A loop that is left early cuts off what is on its way, and nothing reports that: of the messages that the source has given
// and that are not acknowledged, those up to some point are in the log. Messages with ids ([NewMessage], [RequestID]) can be
// appended again, and are there once. The source runs in a goroutine of its own, which ends once it gives one more message.
func (t *Task) AppendMany(
	ctx context.Context, messages iter.Seq[any],
) iter.Seq2[*pb.AppendMessageResponse, error] {
	return func(yield func(*pb.AppendMessageResponse, error) bool) {
		if err := t.settle(ctx); err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := &source{pipeline: pipeline{task: t}}
		go s.feed(ctx, messages)
		err := s.run(ctx, 0, func(answer *pb.AppendMessageResponse) bool { return yield(answer, nil) })
		if problem := s.leave(); problem != nil && err == nil {
			err = problem
		}
		if err != nil && err != errStopped {
			yield(nil, s.give(err))
		}
	}
}

// source feeds a pipeline with what a sequence gives.
type source struct {
	pipeline
	// The message that the source has given and that is not handed over yet, under the lock of the pipeline.
	held *pb.AppendMessagesRequest

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
	repairText(request.ProtoReflect())
	if !s.hold(request) {
		return errStopped
	}
	if err := s.task.client.checkSize(ctx, request); err != nil {
		return err
	}
	return s.release(ctx)
}

// hold keeps a message for the report until it is handed over; false if there was a report already.
func (s *source) hold(request *pb.AppendMessagesRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	s.held = request
	return true
}

// release hands over the message that is held, and waits until there is room for another one: what the source has given is
// never out of sight.
func (s *source) release(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return errStopped
	}
	s.push(s.held)
	s.held = nil
	for s.isFull() {
		if err := s.wait(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// give reports what was taken from the source and is not in the log, and takes no more.
func (s *source) give(err error) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failure := *asError(err)
	failure.Index = int(s.settled)
	s.take(&failure)
	if s.held != nil {
		failure.NotAppended = append(failure.NotAppended, s.held.GetMessages()...)
	}
	s.finished = true
	return &failure
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
