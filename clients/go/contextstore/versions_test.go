// Servers that are older or newer than this client.

package contextstore_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// serve runs a server of the protocol that is not contextstore.
func serve(t *testing.T, register func(*grpc.Server), options ...contextstore.Option) *contextstore.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener := must(net.Listen("unix", path))(t)
	server := grpc.NewServer()
	register(server)
	go server.Serve(listener)
	client := must(contextstore.Connect("unix:"+path, options...))(t)
	t.Cleanup(func() {
		client.Close()
		server.Stop()
	})
	return client
}

// older has one method.
type older struct {
	pb.UnimplementedContextStoreServer
}

func (older) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	return &pb.GetServerInfoResponse{Version: "0.0.7"}, nil
}

// feature: older-server
func TestAnOlderServerIsNamed(t *testing.T) {
	t.Parallel()
	client := serve(t, func(server *grpc.Server) { pb.RegisterContextStoreServer(server, older{}) })
	task, ctx := client.Task("t"), t.Context()
	calls := map[string]func() error{
		"StartTask":     func() error { _, err := client.StartTask(ctx, nil); return err },
		"AppendMessage": func() error { _, err := task.Append(ctx, user("x")); return err },
		"AppendMessages": func() error {
			_, err := collected(task.AppendMany(ctx, slices.Values([]any{user("x")})))
			return err
		},
		"StreamCurrent": func() error { _, err := task.Current(ctx, nil); return err },
		"RenderContext": func() error { _, err := task.Request(ctx, nil); return err },
		"Chat":          func() error { _, err := collected(task.Chat(ctx, nil)); return err },
		"WatchTask":     func() error { _, err := collected(task.Watch(ctx, "")); return err },
		"Compress":      func() error { _, err := task.Compress(ctx, nil); return err },
		"CompleteTask":  func() error { _, err := task.Complete(ctx, "x"); return err },
		// The whole service is missing.
		"PutToolOutput": func() error {
			_, err := task.Outputs().Put(ctx, nil, strings.NewReader("x"))
			return err
		},
		"GrepToolOutput": func() error {
			_, err := collected(task.Outputs().Grep(ctx, nil))
			return err
		},
	}
	for method, call := range calls {
		err := call()
		var failure *contextstore.Error
		if !errors.Is(err, contextstore.ErrUnsupportedByServer) || !errors.As(err, &failure) || failure.Code != codes.Unimplemented ||
			failure.Metadata["method"] != method {
			t.Errorf("%s: %v", method, err)
		}
		for _, words := range []string{"method " + method + " ", "0.0.7", "upgrade the server"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%q is not in %v", words, err)
			}
		}
	}
	if err := task.AppendLater(ctx, user("x")); err != nil {
		t.Error(err)
	}
	err := task.Flush(ctx)
	if left := notAppended(t, err); len(left) != 1 || !errors.Is(err, contextstore.ErrUnsupportedByServer) {
		t.Errorf("%v", err)
	}
}

// newer answers with more than this client knows.
type newer struct {
	pb.UnimplementedContextStoreServer
}

// Values of enums that no version has yet.
const (
	hibernating = pb.TaskStatus(15_000)
	newReason   = pb.CompressSkipReason(15_000)
)

// unknown is a field that no version has yet.
func unknown() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 15_000, protowire.BytesType), "news")
}

func (newer) GetTask(context.Context, *pb.GetTaskRequest) (*pb.GetTaskResponse, error) {
	answer := &pb.GetTaskResponse{Task: &pb.Task{Status: hibernating}}
	answer.ProtoReflect().SetUnknown(unknown())
	return answer, nil
}

func (newer) AppendMessage(context.Context, *pb.AppendMessageRequest) (*pb.AppendMessageResponse, error) {
	made, err := status.New(codes.FailedPrecondition, "it is cold").WithDetails(
		&errdetails.ErrorInfo{Reason: "ERROR_REASON_TOO_COLD", Metadata: map[string]string{"degrees": "-7"}},
		&errdetails.Help{})
	if err != nil {
		return nil, err
	}
	return nil, made.Err()
}

func (newer) Chat(_ *pb.ChatRequest, stream grpc.ServerStreamingServer[pb.ChatResponse]) error {
	event := &pb.ChatResponse{}
	event.ProtoReflect().SetUnknown(unknown())
	return errors.Join(stream.Send(event), stream.Send(&pb.ChatResponse{Event: &pb.ChatResponse_Text{Text: "hi"}}))
}

func (newer) Compress(_ *pb.CompressRequest, stream grpc.ServerStreamingServer[pb.CompressResponse]) error {
	event := &pb.CompressResponse{}
	event.ProtoReflect().SetUnknown(unknown())
	done := &pb.CompressResponse{Event: &pb.CompressResponse_Done{Done: &pb.CompressDone{SkipReason: newReason}}}
	return errors.Join(stream.Send(event), stream.Send(done))
}

func (newer) StreamMessages(_ *pb.StreamMessagesRequest, stream grpc.ServerStreamingServer[pb.StreamMessagesResponse]) error {
	return stream.Send(&pb.StreamMessagesResponse{Records: [][]byte{[]byte(`{"event":"hibernated","after":3,"news":[1]}` + "\n")}})
}

// feature: newer-server
func TestANewerServerDoesNotBreakTheClient(t *testing.T) {
	t.Parallel()
	client := serve(t, func(server *grpc.Server) { pb.RegisterContextStoreServer(server, newer{}) })
	task, ctx := client.Task("t"), t.Context()
	if now := must(task.Get(ctx))(t); now.GetTask().GetStatus() != hibernating {
		t.Errorf("%v", now)
	}
	_, err := task.Append(ctx, user("x"))
	var failure *contextstore.Error
	if isReason(t, err, "TOO_COLD"); !errors.As(err, &failure) || failure.Code != codes.FailedPrecondition || failure.Metadata["degrees"] != "-7" {
		t.Errorf("%v", err)
	}
	if events := must(collected(task.Chat(ctx, nil)))(t); len(events) != 2 || events[1].GetText() != "hi" {
		t.Errorf("%v", events)
	}
	done := must(task.Compress(ctx, nil, func(step *pb.CompressResponse_Progress) { t.Errorf("%v", step) }))(t)
	if done.GetSkipReason() != newReason {
		t.Errorf("%v", done)
	}
	history := must(collected(task.Messages(ctx, nil)))(t)
	if len(history) != 1 || history[0].Kind != "hibernated" || history[0].Seq != 3 {
		t.Errorf("%v", history)
	}
}
