// The outputs of tools, over both transports.

package contextstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// feature: outputs-put
// feature: outputs-read-grep
func TestOutputsAreKeptWhole(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx := t.Context()
		task := must(client.StartTask(ctx, nil))(t)
		outputs := task.Outputs()
		small := "one\ntwo error\nthree\n"
		put := must(outputs.Put(ctx, &pb.PutToolOutputHeader{ToolName: "make"}, strings.NewReader(small)))(t)
		ref := put.GetRef().GetId()
		if put.GetRef().GetLineCount() != 3 || put.GetTruncated() {
			t.Errorf("%v", put)
		}
		read := must(outputs.Read(ctx, &pb.ReadToolOutputRequest{RefId: ref, Offset: 1, Limit: 1}))(t)
		if got := string(must(io.ReadAll(read))(t)); got != "     2\ttwo error\n" {
			t.Errorf("%q", got)
		}
		found := must(collected(outputs.Grep(ctx, &pb.GrepToolOutputRequest{Pattern: "err.r"})))(t)
		if len(found) != 1 || found[0].GetLineNumber() != 2 || found[0].GetRefId() != ref {
			t.Errorf("%v", found)
		}

		// Large, from something that cannot seek.
		large := []byte(strings.Repeat("many words, again and again\n", 200_000))
		header := &pb.PutToolOutputHeader{ToolName: "cat", ToolCallId: "call-1", Append: true, RequestId: "put-1"}
		must(task.Append(ctx, `{"role":"assistant","content":null,"tool_calls":[{"id":"call-1","type":"function","function":{"name":"cat","arguments":"{}"}}]}`))(t)
		first := must(outputs.Put(ctx, header, iotest.DataErrReader(bytes.NewBuffer(large))))(t)
		again := must(outputs.Put(ctx, header, bytes.NewReader(large)))(t)
		if first.GetSeq() != 2 || again.GetSeq() != 2 || !again.GetDuplicate() || !first.GetTruncated() {
			t.Errorf("%v %v", first, again)
		}
		request := &pb.ReadToolOutputRequest{RefId: first.GetRef().GetId(), Raw: true}
		if got := must(io.ReadAll(must(outputs.Read(ctx, request))(t)))(t); !bytes.Equal(got, large) {
			t.Errorf("%d of %d bytes", len(got), len(large))
		}
		request.Offset, request.Limit = 5, 5
		if got := string(must(io.ReadAll(must(outputs.Read(ctx, request))(t)))(t)); got != "words" {
			t.Errorf("%q", got)
		}
		if stat := must(outputs.Stat(ctx, first.GetRef().GetId()))(t); stat.GetToolCallId() != "call-1" {
			t.Errorf("%v", stat)
		}
		_, err := outputs.Stat(ctx, "out-00000000000000000000000000000000")
		isReason(t, err, contextstore.OutputNotFound)

		// A reader that fails keeps nothing, and its error is the caller's.
		broken := errors.New("broken")
		_, err = outputs.Put(ctx, nil, io.MultiReader(bytes.NewReader(large), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if listed := must(collected(outputs.List(ctx)))(t); len(listed) != 2 {
			t.Errorf("%v", listed)
		}
		collect := &pb.CollectGarbageRequest{MinAge: durationpb.New(0), DryRun: true}
		if done := must(outputs.CollectGarbage(ctx, collect))(t); done.GetRemoved() != 1 || done.GetKept() != 1 {
			t.Errorf("%v", done)
		}
		must(client.CollectGarbage(ctx, nil))(t)
	})
}

func TestOldOutputsBecomePlaceholders(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx := t.Context()
		task := must(client.StartTask(ctx, uncompressed()))(t)
		outputs := task.Outputs()
		must(task.Append(ctx, `{"role":"assistant","content":null,"tool_calls":[{"id":"call-1","type":"function","function":{"name":"cat","arguments":"{}"}}]}`))(t)
		header := &pb.PutToolOutputHeader{ToolName: "cat", ToolCallId: "call-1", Append: true}
		put := must(outputs.Put(ctx, header, strings.NewReader(strings.Repeat("many words\n", 500))))(t)
		request := &pb.TrimToolOutputsRequest{BudgetTokens: proto.Uint64(0)}
		if trimmed := must(outputs.Trim(ctx, request))(t); trimmed.GetTrimmed() != 0 {
			t.Errorf("the model has not answered it: %v", trimmed)
		}
		must(task.Append(ctx, contextstore.Message{Role: "assistant", Content: "Seen."}))(t)
		trimmed := must(outputs.Trim(ctx, request))(t)
		if trimmed.GetTrimmed() != 1 || trimmed.GetTokensAfter() >= trimmed.GetTokensBefore() {
			t.Errorf("%v", trimmed)
		}
		if shown := view(t, task)[1]; len(shown) > 1000 || !strings.Contains(shown, put.GetRef().GetId()) {
			t.Errorf("%s", shown)
		}
	})
}

func TestAnOutputIsPutOnceAcrossCuts(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t))
	task := must(p.connect(t).StartTask(t.Context(), nil))(t)
	header := &pb.PutToolOutputHeader{ToolName: "cat", Record: &pb.OutputRecord{}}
	large := strings.Repeat("many words\n", 300_000)
	p.cutAfter(0)
	put := must(task.Outputs().Put(t.Context(), header, strings.NewReader(large)))(t)
	if p.cuts != 1 || put.GetToolSeq() != 1 {
		t.Errorf("%d cuts: %v", p.cuts, put)
	}
	p.cutAfter(1_000_000)
	request := &pb.ReadToolOutputRequest{RefId: put.GetRef().GetId(), Raw: true}
	if got := must(io.ReadAll(must(task.Outputs().Read(t.Context(), request))(t)))(t); string(got) != large || p.cuts != 2 {
		t.Errorf("%d cuts: %d of %d bytes", p.cuts, len(got), len(large))
	}
	// Numbered lines go on in the middle of one.
	p.cutAfter(1_000_000)
	request = &pb.ReadToolOutputRequest{RefId: put.GetRef().GetId(), Offset: 10, Limit: 200_000}
	got := must(io.ReadAll(must(task.Outputs().Read(t.Context(), request))(t)))(t)
	want := &strings.Builder{}
	for number := 11; number <= 200_010; number++ {
		fmt.Fprintf(want, "%6d\tmany words\n", number)
	}
	if string(got) != want.String() || p.cuts != 3 {
		t.Errorf("%d cuts: %d of %d bytes", p.cuts, len(got), want.Len())
	}
}

// feature: outputs-input-breaks
func TestAnInputThatBreaksOffIsNotStored(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), nil))(t)
		for _, size := range []int{0, 10, 1 << 20, 1<<20 + 1, 3 << 20} {
			for _, problem := range []error{io.ErrUnexpectedEOF, fmt.Errorf("the pipe broke: %w", io.EOF), errBroken} {
				data := bytes.Repeat([]byte("x"), size)
				content := io.MultiReader(bytes.NewReader(data), iotest.ErrReader(problem))
				if put, err := task.Outputs().Put(t.Context(), nil, content); err != problem {
					t.Errorf("%d bytes and %v: %v %v", size, problem, put, err)
				}
			}
		}
		if listed := must(collected(task.Outputs().List(t.Context())))(t); len(listed) != 0 {
			t.Errorf("%v", listed)
		}
	})
}

// slowFile is a reader that can seek and is slow: the server is killed while it is read.
type slowFile struct {
	*bytes.Reader
	read   atomic.Int64
	middle func()
}

func (f *slowFile) Read(into []byte) (int, error) {
	n, err := f.Reader.Read(into[:min(len(into), 50_000)])
	if before := f.read.Add(int64(n)) - int64(n); before < 2_000_000 && before+int64(n) >= 2_000_000 {
		f.middle()
	}
	return n, err
}

// feature: outputs-retry
func TestASlowFileIsStoredWholeAcrossARestart(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), nil))(t)
		var lines bytes.Buffer
		for n := 0; lines.Len() < 3_200_000; n++ {
			fmt.Fprintf(&lines, "line %d\n", n)
		}
		whole := lines.Bytes()
		file := &slowFile{Reader: bytes.NewReader(whole), middle: func() { s.kill(); s.start() }}
		file.Seek(100, io.SeekStart)
		put := must(task.Outputs().Put(t.Context(), nil, file))(t)
		request := &pb.ReadToolOutputRequest{RefId: put.GetRef().GetId(), Raw: true}
		got := must(io.ReadAll(must(task.Outputs().Read(t.Context(), request))(t)))(t)
		if !bytes.Equal(got, whole[100:]) || file.read.Load() <= int64(len(whole)) {
			t.Errorf("%d of %d bytes, %d were read", len(got), len(whole)-100, file.read.Load())
		}
		// What cannot be read again is not sent again in part.
		pipe := io.MultiReader(bytes.NewReader(whole[:2_000_000]), &once{func() { s.kill(); s.start() }}, bytes.NewReader(whole))
		var failure *contextstore.Error
		if _, err := task.Outputs().Put(t.Context(), nil, pipe); !errors.As(err, &failure) || failure.Code != codes.Unavailable {
			t.Errorf("%v", err)
		}
	})
}

// once is empty, and calls a function.
type once struct{ then func() }

func (o *once) Read([]byte) (int, error) {
	o.then()
	return 0, io.EOF
}

// silent takes an output and never answers.
type silent struct {
	pb.UnimplementedToolOutputsServer
}

func (silent) PutToolOutput(stream grpc.ClientStreamingServer[pb.PutToolOutputRequest, pb.PutToolOutputResponse]) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}

func TestAServerThatTakesNothingIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	client := serve(t, func(server *grpc.Server) { pb.RegisterToolOutputsServer(server, silent{}) },
		contextstore.WithTimeout(100*time.Millisecond))
	_, err := client.Task("t").Outputs().Put(t.Context(), nil, strings.NewReader("small"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "took nothing for 100ms") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Task("t").Outputs().Put(ctx, nil, bytes.NewReader(make([]byte, 5<<20)))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
