// What a task has to do with models: a turn of one, and the body of a request to one.

package contextstore

import (
	"context"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Chat is a turn of a model: the messages are appended (as [Task.Append] takes them), the context is sent, the answer comes
// as it arrives and is appended. Nothing happens before the loop begins; Started comes first, Done last. Leaving the loop
// before that cancels the call, and what arrived stays in the log as interrupted.
//
// It is repeated, under the same request id, while the server cannot be reached and nothing has come; never after that.
func (t *Task) Chat(
	ctx context.Context, request *pb.ChatRequest, messages ...any,
) iter.Seq2[*pb.ChatResponse, error] {
	return func(yield func(*pb.ChatResponse, error) bool) {
		request := cloned(request)
		request.TaskUuid, request.LeaseGeneration = t.UUID, t.lease.current()
		fill(&request.RequestId, newID)
		for _, message := range messages {
			made, err := NewMessage(message)
			if err != nil {
				yield(nil, err)
				return
			}
			if given, ok := message.(*pb.NewMessage); !ok || given.GetRequestId() == "" {
				// The server makes one of the call's.
				made.RequestId = ""
			}
			request.Messages = append(request.Messages, made)
		}
		if err := t.client.prepare(ctx, request); err != nil {
			yield(nil, err)
			return
		}
		open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.ChatResponse], error) {
			return t.client.Stub.Chat(ctx, request)
		}
		for event, err := range listen(ctx, t, untilBegun, open) {
			if err == nil {
				t.lease.touch()
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// Request gives what the model sees as the body of a request to a provider, for an HTTP client of one's own. It is valid
// whatever happened to the task. A connection that breaks after the first byte ends it: ask again. Close it when it is
// not read to its end, as http.Client does.
func (t *Task) Request(ctx context.Context, request *pb.RenderContextRequest) (io.ReadCloser, error) {
	request = cloned(request)
	request.TaskUuid = t.UUID
	ctx, cancel := context.WithCancel(ctx)
	open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.RenderContextResponse], error) {
		return t.client.Stub.RenderContext(ctx, request)
	}
	return newBody(cancel, dataOf(listen(ctx, t, untilBegun, open)))
}

// dataOf gives the bytes of answers that have some.
func dataOf[A interface{ GetData() []byte }](answers iter.Seq2[A, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for answer, err := range answers {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(answer.GetData(), nil) {
				return
			}
		}
	}
}
