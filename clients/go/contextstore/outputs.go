// The outputs of tools: kept whole on disk, shown to the model in part.

package contextstore

import (
	"bytes"
	"context"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Outputs are the outputs of the tools of one task.
type Outputs struct {
	task *Task
}

// Outputs gives the outputs of the task's tools.
func (t *Task) Outputs() Outputs {
	return Outputs{task: t}
}

// Read gives lines of an output, numbered, or with Raw its bytes as they are. Close it when it is not read to its end.
func (o Outputs) Read(ctx context.Context, request *pb.ReadToolOutputRequest) (io.ReadCloser, error) {
	request = cloned(request)
	request.TaskUuid = o.task.UUID
	ctx, cancel := context.WithCancel(ctx)
	offset, limit := request.GetOffset(), request.GetLimit()
	// How far it was read: lines, and bytes behind the last of them; with Raw, bytes alone.
	var done, behind, skip uint64
	open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.ReadToolOutputResponse], error) {
		skip, request.Offset = behind, offset+done
		if limit > 0 {
			request.Limit = limit - done
		}
		return o.task.client.OutputsStub.ReadToolOutput(ctx, request)
	}
	return newBody(cancel, func(yield func([]byte, error) bool) {
		for data, err := range dataOf(listen(ctx, o.task, always, open)) {
			again := min(skip, uint64(len(data)))
			data, skip = data[again:], skip-again
			if request.GetRaw() {
				done += uint64(len(data))
			} else if last := bytes.LastIndexByte(data, '\n'); last >= 0 {
				done += uint64(bytes.Count(data, []byte("\n")))
				behind = uint64(len(data) - last - 1)
			} else {
				behind += uint64(len(data))
			}
			if !yield(data, err) || limit > 0 && done >= limit {
				return
			}
		}
	})
}

// Grep gives lines that match a regular expression, and those around them, of one output or of all.
func (o Outputs) Grep(ctx context.Context, request *pb.GrepToolOutputRequest) iter.Seq2[*pb.GrepLine, error] {
	return func(yield func(*pb.GrepLine, error) bool) {
		request := cloned(request)
		request.TaskUuid = o.task.UUID
		open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.GrepToolOutputResponse], error) {
			return o.task.client.OutputsStub.GrepToolOutput(ctx, request)
		}
		for answer, err := range listen(ctx, o.task, untilBegun, open) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, line := range answer.GetLines() {
				if !yield(line, nil) {
					return
				}
			}
		}
	}
}

// Stat tells what is known of an output.
func (o Outputs) Stat(ctx context.Context, ref string) (*pb.ToolOutput, error) {
	request := &pb.StatToolOutputRequest{TaskUuid: o.task.UUID, RefId: ref}
	answer, err := ask(ctx, o.task, o.task.client.OutputsStub.StatToolOutput, request)
	return answer.GetOutput(), err
}

// List gives the outputs, by their refs.
func (o Outputs) List(ctx context.Context) iter.Seq2[*pb.ToolOutput, error] {
	return pages(func(token string) ([]*pb.ToolOutput, string, error) {
		request := &pb.ListToolOutputsRequest{TaskUuid: o.task.UUID, PageToken: token}
		page, err := ask(ctx, o.task, o.task.client.OutputsStub.ListToolOutputs, request)
		return page.GetOutputs(), page.GetNextPageToken(), err
	})
}

// Trim makes the oldest outputs in the view placeholders that name their refs, until the rest fits the budget of the request,
// or the task's own.
func (o Outputs) Trim(
	ctx context.Context, request *pb.TrimToolOutputsRequest,
) (*pb.TrimToolOutputsResponse, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = o.task.UUID, o.task.lease.current()
	fill(&request.RequestId, newID)
	return change(ctx, o.task, o.task.client.OutputsStub.TrimToolOutputs, request)
}

// CollectGarbage removes outputs of this task that no log names and that are not new.
func (o Outputs) CollectGarbage(
	ctx context.Context, request *pb.CollectGarbageRequest,
) (*pb.CollectGarbageResponse, error) {
	request = cloned(request)
	request.TaskUuid = o.task.UUID
	return o.task.client.CollectGarbage(ctx, request)
}

// CollectGarbage removes outputs that no log names and that are not new, of all tasks or of the one that is named.
func (c *Client) CollectGarbage(
	ctx context.Context, request *pb.CollectGarbageRequest,
) (*pb.CollectGarbageResponse, error) {
	return invoke(ctx, c, c.OutputsStub.CollectGarbage, cloned(request))
}
