// Reading a task as streams, each of which goes on where a broken connection left it.

package contextstore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Record is one line of a log.
type Record struct {
	// Kind is message, or the name of the event; in other logs tool_call, plan or summary.
	Kind string
	// Seq is the number of the record; of an event, that of the last message before it.
	Seq uint64
	// JSON is the line as it stands on disk, with its checksum, without the newline.
	JSON json.RawMessage
}

// Current gives what the model sees: current.jsonl, straight from disk. It is one snapshot, also across broken connections.
// Close it when it is not read to its end.
func (t *Task) Current(ctx context.Context, request *pb.StreamCurrentRequest) (io.ReadCloser, error) {
	request = cloned(request)
	request.TaskUuid = t.UUID
	ctx, cancel := context.WithCancel(ctx)
	var snapshot *pb.StreamCurrentResponse
	open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.StreamCurrentResponse], error) {
		return t.client.Stub.StreamCurrent(ctx, request)
	}
	return newBody(cancel, func(yield func([]byte, error) bool) {
		for chunk, err := range listen(ctx, t, always, open) {
			if err != nil {
				yield(nil, err)
				return
			}
			if snapshot == nil {
				snapshot = chunk
				request.Generation = proto.Uint64(chunk.GetGeneration())
			}
			// What was appended between two attempts lies behind the end of the snapshot.
			data := chunk.GetData()
			data = data[:min(uint64(len(data)), snapshot.GetTotalBytes()-request.Offset)]
			request.Offset += uint64(len(data))
			if !yield(data, nil) || request.Offset >= snapshot.GetTotalBytes() {
				return
			}
		}
	})
}

// CurrentMessages gives what the model sees, message by message.
func (t *Task) CurrentMessages(
	ctx context.Context, request *pb.StreamCurrentRequest,
) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		body, err := t.Current(ctx, request)
		if err != nil {
			yield(nil, err)
			return
		}
		defer body.Close()
		lines(body)(yield)
	}
}

// Messages gives the history: messages and events. With Follow it goes on with what is appended later.
func (t *Task) Messages(ctx context.Context, request *pb.StreamMessagesRequest) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		request := cloned(request)
		request.TaskUuid = t.UUID
		limit, total := request.GetLimit(), uint64(0)
		// Events have no number of their own, so a place is a message and how many records from it on were read.
		place, done, skip := request.GetFromSeq(), uint64(0), uint64(0)
		open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.StreamMessagesResponse], error) {
			skip, request.FromSeq = done, place
			if limit > 0 {
				request.Limit = limit - total + skip
			}
			return t.client.Stub.StreamMessages(ctx, request)
		}
		for batch, err := range listen(ctx, t, always, open) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, line := range batch.GetRecords() {
				if skip > 0 {
					skip--
					continue
				}
				record, err := historyRecord(line)
				if err != nil {
					yield(Record{}, err)
					return
				}
				if record.Seq > place {
					place, done = record.Seq, 0
				}
				done++
				total++
				if !yield(record, nil) || total == limit {
					return
				}
			}
		}
	}
}

// ToolCalls gives the tool calls that were recorded.
func (t *Task) ToolCalls(ctx context.Context, request *pb.StreamToolCallsRequest) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		request := cloned(request)
		request.TaskUuid = t.UUID
		open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.StreamToolCallsResponse], error) {
			return t.client.Stub.StreamToolCalls(ctx, request)
		}
		numbered("tool_call", listen(ctx, t, always, open), &request.FromSeq, &request.Limit)(yield)
	}
}

// Plans gives the plans, oldest first.
func (t *Task) Plans(ctx context.Context, request *pb.StreamPlansRequest) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		request := cloned(request)
		request.TaskUuid = t.UUID
		open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.StreamPlansResponse], error) {
			return t.client.Stub.StreamPlans(ctx, request)
		}
		numbered("plan", listen(ctx, t, always, open), &request.FromId, &request.Limit)(yield)
	}
}

// Summaries gives the summaries, oldest first. Those that were taken back have "undone":true.
func (t *Task) Summaries(ctx context.Context, request *pb.StreamSummariesRequest) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		request := cloned(request)
		request.TaskUuid = t.UUID
		// They are few: after a broken connection they are asked for from the first, and those that were read are left out.
		done, skip := 0, 0
		open := func(ctx context.Context) (grpc.ServerStreamingClient[pb.StreamSummariesResponse], error) {
			skip = done
			return t.client.Stub.StreamSummaries(ctx, request)
		}
		for batch, err := range listen(ctx, t, always, open) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, line := range batch.GetRecords() {
				if skip > 0 {
					skip--
					continue
				}
				record, err := numberedRecord("summary", line)
				if err != nil {
					yield(Record{}, err)
					return
				}
				done++
				if !yield(record, nil) {
					return
				}
			}
		}
	}
}

// numbered reads a log whose records have numbers of their own; from and limit are moved, for the next attempt.
func numbered[B interface{ GetRecords() [][]byte }](
	kind string, batches iter.Seq2[B, error], from, limit *uint64,
) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for batch, err := range batches {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, line := range batch.GetRecords() {
				record, err := numberedRecord(kind, line)
				if err != nil {
					yield(Record{}, err)
					return
				}
				*from = record.Seq + 1
				if !yield(record, nil) || *limit == 1 {
					return
				}
				if *limit > 0 {
					*limit--
				}
			}
		}
	}
}

func historyRecord(line []byte) (Record, error) {
	var head struct {
		Event string `json:"event"`
		After uint64 `json:"after"`
		Seq   uint64 `json:"seq"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Record{}, err
	}
	record := Record{Kind: "message", Seq: head.Seq, JSON: bytes.TrimSuffix(line, []byte("\n"))}
	if head.Event != "" {
		record.Kind, record.Seq = head.Event, head.After
	}
	return record, nil
}

func numberedRecord(kind string, line []byte) (Record, error) {
	var head struct {
		Seq uint64 `json:"seq"`
		ID  uint64 `json:"id"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Record{}, err
	}
	return Record{Kind: kind, Seq: max(head.Seq, head.ID), JSON: bytes.TrimSuffix(line, []byte("\n"))}, nil
}

// lines gives one line after the other, without their newlines.
func lines(from io.Reader) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		reader := bufio.NewReaderSize(from, 64<<10)
		for {
			line, err := reader.ReadBytes('\n')
			if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 {
				if !yield(line, nil) {
					return
				}
			}
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// body is a stream of chunks as a reader.
type body struct {
	// Ends the call, and so a Read that waits for it.
	cancel context.CancelFunc

	mu   sync.Mutex
	rest []byte
	err  error
	next func() ([]byte, error, bool)
	stop func()
}

// newBody reads the first chunk, so that a call that is refused fails here.
func newBody(cancel context.CancelFunc, chunks iter.Seq2[[]byte, error]) (io.ReadCloser, error) {
	b := &body{cancel: cancel}
	b.next, b.stop = iter.Pull2(chunks)
	b.pull()
	if b.err != nil && b.err != io.EOF {
		return nil, b.err
	}
	return b, nil
}

// pull waits for bytes.
func (b *body) pull() {
	for len(b.rest) == 0 && b.err == nil {
		chunk, err, ok := b.next()
		switch {
		case !ok:
			b.end(io.EOF)
		case err != nil:
			b.end(err)
		default:
			b.rest = chunk
		}
	}
}

// end says what Read answers from now on.
func (b *body) end(err error) {
	b.err = err
	b.stop()
	b.cancel()
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pull()
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends the call, if it has not ended. It may be called while another goroutine reads.
func (b *body) Close() error {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.end(io.ErrClosedPipe)
	}
	b.rest = nil
	return nil
}
