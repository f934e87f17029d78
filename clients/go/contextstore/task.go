// One task and its life.

package contextstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Task is a task. What changes it is acknowledged when it is on disk. It may be used by many goroutines at once.
type Task struct {
	// UUID is its id.
	UUID string
	// Created tells whether it was made, rather than taken up or looked at.
	Created bool
	// InheritedFrom is the task that it took over from when it was started; empty if there was none.
	InheritedFrom string
	// InheritanceComment is a comment on that for people, as to post on the issue.
	InheritanceComment string
	// Resumed tells whether ResumeOrStartTask has found it.
	Resumed bool

	client *Client
	lease  lease
	hooks  hooks
	later  appender
}

// summarizing is how long a completion may take for which the server asks a model.
const summarizing = 5 * time.Minute

// ask makes a call behind what was handed to AppendLater.
func ask[Q, A any](
	ctx context.Context, t *Task, method func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	return invoke(ctx, t.client, method, request)
}

// listen is read for a stream behind what was handed to AppendLater.
func listen[A any](
	ctx context.Context, t *Task, when again, open func(context.Context) (grpc.ServerStreamingClient[A], error),
) iter.Seq2[*A, error] {
	return func(yield func(*A, error) bool) {
		if err := t.settle(ctx); err != nil {
			yield(nil, err)
			return
		}
		read(ctx, t.client, when, open)(yield)
	}
}

// change is ask for a call that renews the lease when it is accepted.
func change[Q, A any](
	ctx context.Context, t *Task, method func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	answer, err := ask(ctx, t, method, request)
	if err == nil {
		t.lease.touch()
	}
	return answer, err
}

// LeaseGeneration is the lease that changes are made under; 0: none.
func (t *Task) LeaseGeneration() uint64 {
	return t.lease.current()
}

// LeaseLost tells why the lease could not be renewed, such as [StaleLease] if another client has taken the task; nil while it
// is alive. Changes are refused then.
func (t *Task) LeaseLost() error {
	return t.lease.isLost()
}

// Close is [Task.Flush], for at most 10 seconds ([WithCloseTimeout]), and then renews the lease no more. The task stays as it
// is, and its lease ends by itself.
func (t *Task) Close() error {
	defer t.lease.stop()
	ctx, cancel := context.WithTimeout(context.Background(), t.client.closeFor)
	defer cancel()
	return t.later.flush(ctx)
}

// Get gives the task as it is now, and how full its context is.
func (t *Task) Get(ctx context.Context) (*pb.GetTaskResponse, error) {
	return ask(ctx, t, t.client.Stub.GetTask, &pb.GetTaskRequest{TaskUuid: t.UUID})
}

// RenewLease keeps the lease alive, as the client does by itself while the task runs. It answers for how long.
func (t *Task) RenewLease(ctx context.Context) (time.Duration, error) {
	request := &pb.RenewLeaseRequest{TaskUuid: t.UUID, LeaseGeneration: t.lease.current()}
	answer, err := invoke(ctx, t.client, t.client.Stub.RenewLease, request)
	if err == nil {
		t.lease.touch()
	}
	return answer.GetLeaseTtl().AsDuration(), err
}

// Pause puts it aside and ends the lease.
func (t *Task) Pause(ctx context.Context, options ...CallOption) (*pb.Task, error) {
	if err := t.before(ctx, Ending{Status: "paused"}); err != nil {
		return nil, err
	}
	answer, err := ask(ctx, t, t.client.Stub.PauseTask, &pb.PauseTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(),
	})
	return t.ended(answer.GetTask(), err)
}

// Resume goes on with it after a pause, under a new lease.
func (t *Task) Resume(ctx context.Context, options ...CallOption) (*pb.Task, error) {
	resumed, err := invoke(ctx, t.client, t.client.Stub.ResumeTask, &pb.ResumeTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.newest(), Holder: t.client.holder,
	})
	if err != nil {
		return nil, err
	}
	t.lease.take(resumed.GetLeaseGeneration(), resumed.GetLeaseTtl().AsDuration())
	return resumed.GetTask(), nil
}

// Complete ends it well. The summary is what is to be remembered of it; without one, the server makes it, for which it has
// five minutes if the context has no deadline.
func (t *Task) Complete(ctx context.Context, finalSummary string, options ...CallOption) (*pb.Task, error) {
	if err := t.before(ctx, Ending{Status: "completed", FinalSummary: finalSummary}); err != nil {
		return nil, err
	}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	timeout := t.client.timeout
	if finalSummary == "" && timeout > 0 {
		timeout = max(timeout, summarizing)
	}
	answer, err := invokeFor(ctx, t.client, timeout, t.client.Stub.CompleteTask, &pb.CompleteTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(),
		FinalSummary: finalSummary,
	})
	return t.ended(answer.GetTask(), err)
}

// Fail ends it badly. The summary may be empty, as for Complete.
func (t *Task) Fail(ctx context.Context, why, finalSummary string, options ...CallOption) (*pb.Task, error) {
	ending := Ending{Status: "failed", FinalSummary: finalSummary, ErrorMessage: why}
	if err := t.before(ctx, ending); err != nil {
		return nil, err
	}
	answer, err := ask(ctx, t, t.client.Stub.FailTask, &pb.FailTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(),
		ErrorMessage: why, FinalSummary: finalSummary,
	})
	return t.ended(answer.GetTask(), err)
}

// ended ends the lease, too, if the task was put aside or has ended.
func (t *Task) ended(task *pb.Task, err error) (*pb.Task, error) {
	if err == nil {
		t.lease.end()
	}
	return task, err
}

// Update replaces its configuration as a whole.
func (t *Task) Update(ctx context.Context, config *pb.TaskConfig, options ...CallOption) (*pb.Task, error) {
	answer, err := change(ctx, t, t.client.Stub.UpdateTask, &pb.UpdateTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(), Config: config,
	})
	return answer.GetTask(), err
}

// Delete removes it with everything in it. Cannot be undone.
func (t *Task) Delete(ctx context.Context, options ...CallOption) error {
	attempts := 0
	remove := func(
		ctx context.Context, request *pb.DeleteTaskRequest, more ...grpc.CallOption,
	) (*pb.DeleteTaskResponse, error) {
		attempts++
		return t.client.Stub.DeleteTask(ctx, request, more...)
	}
	_, err := ask(ctx, t, remove, &pb.DeleteTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(),
	})
	// A removed task remembers nothing: if the answer to the first attempt was lost, this is it.
	if attempts > 1 && errors.Is(err, TaskNotFound) {
		err = nil
	}
	_, err = t.ended(nil, err)
	return err
}

// Fork makes another task out of its first messages, up to AtSeq of the request, or of all; each of the two stands alone.
func (t *Task) Fork(ctx context.Context, request *pb.ForkTaskRequest) (*Task, error) {
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	request = cloned(request)
	request.TaskUuid = t.UUID
	return t.client.ForkTask(ctx, request)
}

// Watch tells what happens to the task from now on, or from behind an earlier event, until the context ends. Nothing is
// missed when the connection breaks or the server is restarted.
func (t *Task) Watch(ctx context.Context, resumeToken string) iter.Seq2[*pb.WatchTaskResponse, error] {
	request := &pb.WatchTaskRequest{TaskUuid: t.UUID, ResumeToken: resumeToken}
	open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.WatchTaskResponse], error) {
		stream, err := t.client.Stub.WatchTask(ctx, request)
		if err != nil {
			return nil, err
		}
		// Where the watch begins: else "from now on" would be a later now once the connection breaks.
		if header, err := stream.Header(); err == nil && len(header.Get("resume-token")) > 0 {
			request.ResumeToken = header.Get("resume-token")[0]
		}
		return stream, nil
	}
	return func(yield func(*pb.WatchTaskResponse, error) bool) {
		for event, err := range read(ctx, t.client, always, open) {
			if err == nil {
				request.ResumeToken = event.GetResumeToken()
			}
			if !yield(event, err) {
				return
			}
		}
	}
}
