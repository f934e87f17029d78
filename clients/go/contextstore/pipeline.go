// Messages that are on their way to the log over one stream, in order, and across broken connections. Knows nothing of who
// hands them over.

package contextstore

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

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

// pipeline holds the messages that were handed over and are not acknowledged. A message has a number: how many were handed
// over before it.
type pipeline struct {
	task *Task

	mu sync.Mutex
	// Closed when something below has changed; nil while nobody waits for that.
	changed chan struct{}
	// The first has the number settled.
	waiting []*pb.AppendMessagesRequest
	settled uint64
	bytes   int
	// How many were given to a stream, of all.
	sent uint64
	// Whether no message will be handed over any more.
	finished bool
}

// wait unlocks, waits for a change, a tick or the end of the context, and locks again.
func (p *pipeline) wait(ctx context.Context, tick <-chan time.Time) error {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-tick:
		return errIdle
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errIdle = fmt.Errorf("nothing has happened")

// notify wakes all that wait. The lock is held.
func (p *pipeline) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// isFull tells whether there is room for no other message. The lock is held.
func (p *pipeline) isFull() bool {
	return len(p.waiting) >= windowMessages || p.bytes >= windowBytes
}

// push takes a message in. The lock is held.
func (p *pipeline) push(request *pb.AppendMessagesRequest) {
	p.waiting = append(p.waiting, request)
	p.bytes += proto.Size(request)
	p.notify()
}

// finish says that all messages were handed over.
func (p *pipeline) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	p.notify()
}

// take gives up what is not acknowledged, and reports it in an error. The lock is held.
func (p *pipeline) take(failure *Error) {
	left := make([]*pb.NewMessage, 0, len(p.waiting))
	for _, request := range p.waiting {
		left = append(left, request.GetMessages()...)
	}
	p.settled += uint64(len(left))
	p.waiting, p.bytes = nil, 0
	p.notify()
	failure.NotAppended, failure.task = left, p.task.UUID
}

// progress is how many messages are settled.
func (p *pipeline) progress() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled
}

// run sends messages until all are acknowledged and no more will come, or with idle, until none has come for so long. It
// opens a new stream when one breaks. It answers errStopped when onAck has returned false.
func (p *pipeline) run(ctx context.Context, idle time.Duration, onAck func(*pb.AppendMessageResponse) bool) error {
	client := p.task.client
	patience := patience{lasts: client.retryFor}
	for {
		before := p.progress()
		err := p.attempt(ctx, idle, onAck)
		if err == errStopped || err == nil && p.isDone(idle) {
			return err
		}
		moved := p.progress() > before
		if moved {
			patience.renew()
		}
		if err == nil && moved {
			continue
		}
		if err == nil {
			return cutOff("before all messages were acknowledged")
		}
		failure := client.failed(ctx, "AppendMessages", err)
		if moved && failure.Reason == Stalled {
			// Acknowledgements that were read too slowly for the server's patience.
			continue
		}
		if failure = patience.pauseAfter(ctx, failure); failure != nil {
			return failure
		}
	}
}

func (p *pipeline) isDone(idle time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) == 0 && (p.finished || idle > 0)
}

// attempt sends what an earlier one left and what is handed over, and takes in what is acknowledged.
func (p *pipeline) attempt(ctx context.Context, idle time.Duration, onAck func(*pb.AppendMessageResponse) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := p.task.client.Stub.AppendMessages(ctx)
	if err != nil {
		cancel()
		return err
	}
	p.mu.Lock()
	p.sent = p.settled
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.send(ctx, idle, stream)
	}()
	// The next attempt begins when nobody sends any more.
	defer func() {
		cancel()
		<-ended
	}()
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return p.unanswered()
		}
		if err != nil {
			return err
		}
		p.task.client.reached.Store(true)
		p.task.lease.touch()
		for _, ack := range answer.GetResponses() {
			p.acknowledge()
			if !onAck(ack) {
				return errStopped
			}
		}
	}
}

// send ends when there is nothing to send any more, or when the attempt does. An error of the stream is told by Recv.
func (p *pipeline) send(ctx context.Context, idle time.Duration, stream interface {
	Send(*pb.AppendMessagesRequest) error
	CloseSend() error
}) {
	for {
		request := p.next(ctx, idle)
		if request == nil {
			_ = stream.CloseSend()
			return
		}
		if stream.Send(request) != nil {
			return
		}
	}
}

// next waits for a message that was not sent; nil if there will be none.
func (p *pipeline) next(ctx context.Context, idle time.Duration) *pb.AppendMessagesRequest {
	var tick <-chan time.Time
	if idle > 0 {
		timer := time.NewTimer(idle)
		defer timer.Stop()
		tick = timer.C
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Some may have been taken back meanwhile, so sent may be behind.
	for p.sent = max(p.sent, p.settled); p.sent-p.settled >= uint64(len(p.waiting)); p.sent = max(p.sent, p.settled) {
		if p.finished || p.wait(ctx, tick) != nil {
			return nil
		}
	}
	request := p.waiting[p.sent-p.settled]
	p.sent++
	return request
}

// acknowledge says that the first message is on disk.
func (p *pipeline) acknowledge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		p.bytes -= proto.Size(p.waiting[0])
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		p.settled++
	}
	p.notify()
}

// unanswered is what is wrong if the server ends the stream.
func (p *pipeline) unanswered() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent > p.settled {
		return newError(codes.Internal, nil,
			"the server ended the stream, but %d messages are not acknowledged", p.sent-p.settled)
	}
	return nil
}

// streamed is a message as a stream carries it.
func (t *Task) streamed(made *pb.NewMessage) *pb.AppendMessagesRequest {
	return &pb.AppendMessagesRequest{
		TaskUuid: t.UUID, LeaseGeneration: t.lease.current(), Messages: []*pb.NewMessage{made},
	}
}
