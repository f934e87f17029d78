// The outputs of tools: kept whole on disk, shown to the model in part.

package contextstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

const (
	// An output up to this size goes in one request.
	wholeBytes = 1 << 20
	// The pieces of a larger one.
	pieceBytes = 256 << 10
)

// Outputs are the outputs of the tools of one task.
type Outputs struct {
	task *Task
}

// Outputs gives the outputs of the task's tools.
func (t *Task) Outputs() Outputs {
	return Outputs{task: t}
}

// Put stores an output of any size, and answers when it is on disk: with a ref to read it by, and with the view that the model
// is to be shown. With Append of the header, the tool message is appended too, and with Record the tool call is recorded.
//
// It is repeated if the connection breaks, under the same request id: if the content is at most 1 MiB, or can seek.
func (o Outputs) Put(
	ctx context.Context, header *pb.PutToolOutputHeader, content io.Reader,
) (*pb.PutToolOutputResponse, error) {
	t := o.task
	header = cloned(header)
	header.TaskUuid, header.LeaseGeneration = t.UUID, t.lease.current()
	fill(&header.RequestId, newID)
	start, canSeek := int64(0), false
	seeker, ok := content.(io.Seeker)
	if ok {
		var err error
		start, err = seeker.Seek(0, io.SeekCurrent)
		canSeek = err == nil
	}
	begin := make([]byte, wholeBytes+1)
	n, err := io.ReadFull(content, begin)
	isWhole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !isWhole {
		return nil, err
	}
	if isWhole {
		header.Content = begin[:n]
	}
	patience := patience{lasts: t.client.retryFor}
	for attempt := 0; ; attempt++ {
		rest := io.MultiReader(bytes.NewReader(begin[:n]), content)
		if attempt > 0 && !isWhole {
			if _, err := seeker.Seek(start, io.SeekStart); err != nil {
				return nil, err
			}
			rest = content
		}
		if isWhole {
			rest = nil
		}
		answer, err := o.put(ctx, header, rest)
		var ours ownError
		switch {
		case err == nil:
			t.lease.touch()
			return answer, nil
		case errors.As(err, &ours):
			return nil, ours.error
		}
		failure := asError(err)
		if isWhole || canSeek {
			failure = patience.pauseAfter(ctx, failure)
		}
		if failure != nil {
			return nil, failure
		}
	}
}

// ownError is one of the caller's reader.
type ownError struct{ error }

// put makes one attempt; an output that is not in the header is read from rest.
func (o Outputs) put(
	ctx context.Context, header *pb.PutToolOutputHeader, rest io.Reader,
) (*pb.PutToolOutputResponse, error) {
	// Ends the call if it is not sent to its end, and then nothing is kept of it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := o.task.client.OutputsStub.PutToolOutput(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&pb.PutToolOutputRequest{Part: &pb.PutToolOutputRequest_Header{Header: header}})
	for rest != nil && err == nil {
		// gRPC may hold on to what was sent.
		piece := make([]byte, pieceBytes)
		n, bad := io.ReadFull(rest, piece)
		if n > 0 {
			err = stream.Send(&pb.PutToolOutputRequest{Part: &pb.PutToolOutputRequest_Data{Data: piece[:n]}})
		}
		if errors.Is(bad, io.EOF) || errors.Is(bad, io.ErrUnexpectedEOF) {
			break
		}
		if bad != nil {
			return nil, ownError{bad}
		}
	}
	// If sending failed, this tells why.
	return stream.CloseAndRecv()
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
		for data, err := range dataOf(read(ctx, o.task.client, always, open)) {
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
		for answer, err := range read(ctx, o.task.client, untilBegun, open) {
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
	answer, err := invoke(ctx, o.task.client, o.task.client.OutputsStub.StatToolOutput, request)
	return answer.GetOutput(), err
}

// List gives the outputs, by their refs.
func (o Outputs) List(ctx context.Context) iter.Seq2[*pb.ToolOutput, error] {
	return pages(func(token string) ([]*pb.ToolOutput, string, error) {
		request := &pb.ListToolOutputsRequest{TaskUuid: o.task.UUID, PageToken: token}
		page, err := invoke(ctx, o.task.client, o.task.client.OutputsStub.ListToolOutputs, request)
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
