// Keeping a context small, by the server or by the agent itself.

package contextstore

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Compress compresses the context now, whatever its pressure; others may append and read meanwhile. A context of which
// nothing can go is no error: Compressed is false, and SkipReason says why. The server goes on if the caller goes away. Each of
// progress is called with each step.
func (t *Task) Compress(
	ctx context.Context, request *pb.CompressRequest, progress ...func(*pb.CompressResponse_Progress),
) (*pb.CompressDone, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = t.UUID, t.lease.current()
	fill(&request.RequestId, newID)
	open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.CompressResponse], error) {
		return t.client.Stub.Compress(ctx, request)
	}
	for event, err := range listen(ctx, t, repeated, open) {
		if err != nil {
			return nil, err
		}
		t.lease.touch()
		if done := event.GetDone(); done != nil {
			return done, nil
		}
		// A newer server may have other news.
		if step := event.GetProgress(); step != nil {
			for _, tell := range progress {
				tell(step)
			}
		}
	}
	return nil, cutOff("before it told what the compression did")
}

// Undo takes back the newest compaction in force: the view is what it was before, and what was appended since.
// [NothingToUndo] if there is none.
func (t *Task) Undo(ctx context.Context, options ...CallOption) (*pb.UndoCompactionResponse, error) {
	return change(ctx, t, t.client.Stub.UndoCompaction, &pb.UndoCompactionRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(),
	})
}

// Compaction is what an agent is to summarise. It ends with Commit or Abort, or by itself when its time is over.
type Compaction struct {
	// Begun tells what to summarise, and how.
	*pb.BeginCompactionResponse_Begun

	task *Task
	next func() (*pb.BeginCompactionResponse, error, bool)
	stop func()

	mu    sync.Mutex
	ended bool
}

// BeginCompaction asks for what to summarise, for an agent that summarises by itself. Nothing else compresses the task until
// it is committed or given up, or its time is over. [NothingToSummarize] if there is nothing to.
func (t *Task) BeginCompaction(ctx context.Context, request *pb.BeginCompactionRequest) (*Compaction, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = t.UUID, t.lease.current()
	open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.BeginCompactionResponse], error) {
		return t.client.Stub.BeginCompaction(ctx, request)
	}
	next, stop := iter.Pull2(listen(ctx, t, untilBegun, open))
	first, err, _ := next()
	if err == nil && first.GetBegun() == nil {
		err = cutOff("before it told what to summarise")
	}
	if err != nil {
		stop()
		return nil, err
	}
	t.lease.touch()
	return &Compaction{BeginCompactionResponse_Begun: first.GetBegun(), task: t, next: next, stop: stop}, nil
}

// Read gives the messages that are to be summarised, one by one as they arrive; once.
func (c *Compaction) Read() iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		body, err := newBody(func() {}, func(yield func([]byte, error) bool) {
			for {
				answer, err, ok := c.next()
				if !ok || !yield(answer.GetData(), err) {
					return
				}
			}
		})
		if err != nil {
			yield(nil, err)
			return
		}
		defer body.Close()
		lines(body)(yield)
	}
}

// Commit puts the summary in the place of the messages. One that is empty, not smaller than they are, or without an output
// ref that it has to name is refused ([SummaryRefused]): another one may be committed.
func (c *Compaction) Commit(ctx context.Context, request *pb.CommitCompactionRequest) (*pb.CompressDone, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = c.task.UUID, c.task.lease.current()
	request.Token = c.GetToken()
	fill(&request.RequestId, newID)
	answer, err := change(ctx, c.task, c.task.client.Stub.CommitCompaction, request)
	if err != nil {
		return nil, err
	}
	c.end()
	return answer.GetDone(), nil
}

// Abort gives it up, if it was not committed: nothing is changed, and other compressions may begin.
func (c *Compaction) Abort(ctx context.Context) error {
	if !c.end() {
		return nil
	}
	_, err := invoke(ctx, c.task.client, c.task.client.Stub.AbortCompaction, &pb.AbortCompactionRequest{
		TaskUuid: c.task.UUID, LeaseGeneration: c.task.lease.current(), Token: c.GetToken(),
	})
	// One that is gone is given back already.
	if errors.Is(err, CompactionNotFound) {
		return nil
	}
	return err
}

// end tells whether it had not ended before.
func (c *Compaction) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.ended
	c.ended = true
	c.stop()
	return first
}
