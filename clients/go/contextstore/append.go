// Appending many messages over one stream, without waiting for each, and across broken connections.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// What may wait for its acknowledgement. What is sent again must be among the last 1 024 request ids of the task's log,
// where events stand too: so half of that.
const (
	windowMessages = 512
	windowBytes    = 16 << 20
)

// AppendMany appends messages, each as [Task.Append] takes them or a [*pb.NewMessage], without waiting for each, and gives an
// acknowledgement for each, in order. Nothing is sent before the loop begins, and at most 512 messages wait for theirs. A
// broken connection is taken up again. The first message that is refused ends it: what came before is appended, nothing
// behind it is. The messages are asked for by a goroutine of its own, which ends once they give one more after the loop
// was left.
func (t *Task) AppendMany(
	ctx context.Context, messages iter.Seq[any],
) iter.Seq2[*pb.AppendMessagesResponse, error] {
	return func(yield func(*pb.AppendMessagesResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		p := &pipeline{task: t, source: make(chan any), room: make(chan struct{}, 1)}
		go p.feed(ctx, messages)
		patience := patience{lasts: t.client.retryFor}
		for {
			acknowledged := false
			err := p.attempt(ctx, func(answer *pb.AppendMessagesResponse) bool {
				acknowledged = true
				t.lease.touch()
				return yield(answer, nil)
			})
			if err == nil || err == errStopped {
				return
			}
			if acknowledged {
				patience.renew()
			}
			if failure := patience.pauseAfter(ctx, asError(err)); failure != nil {
				yield(nil, failure)
				return
			}
		}
	}
}

// pipeline is one run. It keeps what is not acknowledged yet, to send it again if the connection breaks.
type pipeline struct {
	task *Task
	// Closed at the end of the messages.
	source chan any
	// Told when something was acknowledged.
	room chan struct{}

	mu      sync.Mutex
	waiting []*pb.AppendMessagesRequest
	bytes   int
	// What the source gave that cannot be sent: told when all before it is acknowledged.
	bad error
}

func (p *pipeline) feed(ctx context.Context, messages iter.Seq[any]) {
	defer close(p.source)
	for message := range messages {
		select {
		case p.source <- message:
		case <-ctx.Done():
			return
		}
	}
}

// attempt sends what an earlier one left and what the source gives, and hands on what is acknowledged.
func (p *pipeline) attempt(ctx context.Context, tell func(*pb.AppendMessagesResponse) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := p.task.client.Stub.AppendMessages(ctx)
	if err != nil {
		cancel()
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.send(ctx, stream)
	}()
	// The next attempt begins when nobody takes from the source any more.
	defer func() {
		cancel()
		<-sent
	}()
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return p.left()
		}
		if err != nil {
			return err
		}
		p.acknowledge()
		if !tell(answer) {
			return errStopped
		}
	}
}

// send ends at the end of the messages, or when the attempt does. An error of the stream is told by Recv.
func (p *pipeline) send(ctx context.Context, stream interface {
	Send(*pb.AppendMessagesRequest) error
	CloseSend() error
}) {
	p.mu.Lock()
	left := append([]*pb.AppendMessagesRequest(nil), p.waiting...)
	p.mu.Unlock()
	for _, request := range left {
		if stream.Send(request) != nil {
			return
		}
	}
	for {
		// Found by an earlier attempt: what comes behind it is not waited for.
		if p.isBad() {
			_ = stream.CloseSend()
			return
		}
		for p.isFull() {
			select {
			case <-p.room:
			case <-ctx.Done():
				return
			}
		}
		select {
		case message, ok := <-p.source:
			if !ok || !p.add(message) {
				_ = stream.CloseSend()
				return
			}
		case <-ctx.Done():
			return
		}
		if stream.Send(p.newest()) != nil {
			return
		}
	}
}

// add takes a message in; false if it cannot be sent.
func (p *pipeline) add(message any) bool {
	made, err := NewMessage(message)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.bad = err
		return false
	}
	request := &pb.AppendMessagesRequest{
		TaskUuid: p.task.UUID, RequestId: made.GetRequestId(), LeaseGeneration: p.task.lease.current(),
		Pinned: made.GetPinned(), OutputRef: made.GetOutputRef(),
	}
	switch body := made.GetBody().(type) {
	case *pb.NewMessage_Message:
		request.Body = &pb.AppendMessagesRequest_Message{Message: body.Message}
	case *pb.NewMessage_MessageJson:
		request.Body = &pb.AppendMessagesRequest_MessageJson{MessageJson: body.MessageJson}
	}
	p.waiting = append(p.waiting, request)
	p.bytes += proto.Size(request)
	return true
}

func (p *pipeline) newest() *pb.AppendMessagesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[len(p.waiting)-1]
}

func (p *pipeline) isBad() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bad != nil
}

func (p *pipeline) isFull() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) >= windowMessages || p.bytes >= windowBytes
}

func (p *pipeline) acknowledge() {
	p.mu.Lock()
	if len(p.waiting) > 0 {
		p.bytes -= proto.Size(p.waiting[0])
		p.waiting = p.waiting[1:]
	}
	p.mu.Unlock()
	select {
	case p.room <- struct{}{}:
	default:
	}
}

// left is what is wrong at the end of the stream.
func (p *pipeline) left() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		message := fmt.Sprintf("the server ended the stream, but %d messages are not acknowledged", len(p.waiting))
		return &Error{Code: codes.Internal, Message: message}
	}
	if p.bad != nil {
		return &Error{Code: codes.InvalidArgument, Message: p.bad.Error(), cause: p.bad}
	}
	return nil
}
