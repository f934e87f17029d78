// When a call is made again, and how: against a server that fails as it is told.

package contextstore_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// failing answers with the errors it has, one after the other, then well.
type failing struct {
	pb.UnimplementedContextStoreServer
	address string

	mu       sync.Mutex
	errors   []error
	appended []*pb.AppendMessageRequest
	renewed  []*pb.RenewLeaseRequest
	watched  []string
	headers  metadata.MD
	// Closed when a reader has gone away.
	away chan struct{}
}

func (f *failing) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errors) == 0 {
		return nil
	}
	err := f.errors[0]
	f.errors = f.errors[1:]
	return err
}

// left is how many errors it has.
func (f *failing) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errors)
}

func (f *failing) StartTask(ctx context.Context, r *pb.StartTaskRequest) (*pb.StartTaskResponse, error) {
	f.headers, _ = metadata.FromIncomingContext(ctx)
	return &pb.StartTaskResponse{
		Task: &pb.Task{Uuid: r.GetTaskUuid()}, LeaseGeneration: 4, LeaseTtl: durationpb.New(90 * time.Millisecond),
	}, nil
}

func (f *failing) AppendMessage(_ context.Context, r *pb.AppendMessageRequest) (*pb.AppendMessageResponse, error) {
	f.mu.Lock()
	f.appended = append(f.appended, r)
	f.mu.Unlock()
	return &pb.AppendMessageResponse{Seq: 1}, f.next()
}

func (f *failing) RenewLease(_ context.Context, r *pb.RenewLeaseRequest) (*pb.RenewLeaseResponse, error) {
	f.mu.Lock()
	f.renewed = append(f.renewed, r)
	f.mu.Unlock()
	return &pb.RenewLeaseResponse{LeaseTtl: durationpb.New(90 * time.Millisecond)}, f.next()
}

// WatchTask tells one event and breaks off; with no error left it ends.
func (f *failing) WatchTask(r *pb.WatchTaskRequest, stream grpc.ServerStreamingServer[pb.WatchTaskResponse]) error {
	f.mu.Lock()
	f.watched = append(f.watched, r.GetResumeToken())
	f.mu.Unlock()
	if r.GetResumeToken() == "" {
		_ = stream.SendHeader(metadata.Pairs("resume-token", "begin"))
		return f.next()
	}
	_ = stream.Send(&pb.WatchTaskResponse{ResumeToken: r.GetResumeToken() + "+"})
	return f.next()
}

// StreamCurrent tells the first half of the view, and then nothing until the reader goes away.
func (f *failing) StreamCurrent(
	_ *pb.StreamCurrentRequest, stream grpc.ServerStreamingServer[pb.StreamCurrentResponse],
) error {
	_ = stream.Send(&pb.StreamCurrentResponse{Data: []byte("half "), TotalBytes: 10})
	<-stream.Context().Done()
	close(f.away)
	return nil
}

// StreamSummaries tells the first, and the second if it does not break off before that.
func (f *failing) StreamSummaries(
	_ *pb.StreamSummariesRequest, stream grpc.ServerStreamingServer[pb.StreamSummariesResponse],
) error {
	_ = stream.Send(&pb.StreamSummariesResponse{Records: [][]byte{[]byte(`{"id":1}`)}})
	if err := f.next(); err != nil {
		return err
	}
	return stream.Send(&pb.StreamSummariesResponse{Records: [][]byte{[]byte(`{"id":2}`)}})
}

// AppendMessages acknowledges what was sent once all of it was, unless there is an error left.
func (f *failing) AppendMessages(
	stream grpc.BidiStreamingServer[pb.AppendMessagesRequest, pb.AppendMessagesResponse],
) error {
	var count uint64
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		count++
	}
	if err := f.next(); err != nil {
		return err
	}
	for seq := range count {
		ack := &pb.AppendMessageResponse{Seq: seq + 1}
		_ = stream.Send(&pb.AppendMessagesResponse{Responses: []*pb.AppendMessageResponse{ack}})
	}
	return nil
}

func startFailing(t *testing.T, failures ...error) (*failing, *contextstore.Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener := must(net.Listen("unix", path))(t)
	f := &failing{address: "unix:" + path, errors: failures, away: make(chan struct{})}
	server := grpc.NewServer()
	pb.RegisterContextStoreServer(server, f)
	go server.Serve(listener)
	client := must(contextstore.Connect(f.address, contextstore.WithRetryFor(deadline)))(t)
	t.Cleanup(func() {
		client.Close()
		server.Stop()
	})
	return f, client
}

// refused is an error of the server, with a pause after which a retry helps, if there is one.
func refused(t *testing.T, code codes.Code, reason contextstore.Reason, pause time.Duration) error {
	t.Helper()
	made := must(status.New(code, "words").WithDetails(&errdetails.ErrorInfo{Reason: "ERROR_REASON_" + string(reason)}))(t)
	if pause > 0 {
		made = must(made.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(pause)}))(t)
	}
	return made.Err()
}

func TestWhatPassesIsTriedAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	f, client := startFailing(t, status.Error(codes.Unavailable, "gone"),
		refused(t, codes.ResourceExhausted, contextstore.Overloaded, 50*time.Millisecond))
	begin := time.Now()
	must(client.Task("t").Append(t.Context(), user("Once.")))(t)
	if len(f.appended) != 3 || time.Since(begin) < 50*time.Millisecond {
		t.Errorf("%d attempts in %v", len(f.appended), time.Since(begin))
	}
	for _, request := range f.appended {
		if request.GetMessage().GetRequestId() == "" || !proto.Equal(request, f.appended[0]) {
			t.Errorf("%v", request)
		}
	}
}

func TestWhatDoesNotPassIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for _, reason := range []contextstore.Reason{contextstore.StaleLease, contextstore.WrongStatus} {
		f, client := startFailing(t, refused(t, codes.Aborted, reason, 0))
		_, err := client.Task("t").Append(t.Context(), user("Once."))
		isReason(t, err, reason)
		if len(f.appended) != 1 {
			t.Errorf("%d attempts", len(f.appended))
		}
	}
	// Somebody who works on a task may take any time.
	f, client := startFailing(t, refused(t, codes.Aborted, contextstore.LeaseHeld, time.Millisecond))
	_, err := client.Task("t").Append(t.Context(), user("Once."))
	isReason(t, err, contextstore.LeaseHeld)
	// A pause that is longer than the patience is not begun.
	f.errors = []error{refused(t, codes.ResourceExhausted, contextstore.Overloaded, 60*deadline)}
	_, err = client.Task("t").Append(t.Context(), user("Once."))
	isReason(t, err, contextstore.Overloaded)
	if len(f.appended) != 2 {
		t.Errorf("%d attempts", len(f.appended))
	}
}

func TestPatienceIsAsLongAsItIsSaid(t *testing.T) {
	t.Parallel()
	f, _ := startFailing(t)
	for range 100 {
		f.errors = append(f.errors, status.Error(codes.Unavailable, "gone"))
	}
	client := must(contextstore.Connect(f.address, contextstore.WithRetryFor(300*time.Millisecond)))(t)
	defer client.Close()
	_, err := client.Task("t").Append(t.Context(), user("Nobody."))
	// Pauses grow from 12 ms on: so many attempts at most, and more than ten in the time that it is if nothing is said.
	if tries := len(f.appended); status.Code(err) != codes.Unavailable || tries < 2 || tries > 6 {
		t.Errorf("%d attempts: %v", tries, err)
	}
}

func TestAWatchGoesOnBehindTheLastEvent(t *testing.T) {
	t.Parallel()
	gone := status.Error(codes.Unavailable, "gone")
	f, client := startFailing(t, gone, gone)
	events := must(collected(client.Task("t").Watch(t.Context(), "")))(t)
	if len(events) != 2 || events[1].GetResumeToken() != "begin++" || len(f.watched) != 3 || f.watched[1] != "begin" {
		t.Errorf("%v %v", events, f.watched)
	}
}

func TestSummariesThatWereReadAreLeftOut(t *testing.T) {
	t.Parallel()
	_, client := startFailing(t, status.Error(codes.Unavailable, "gone"))
	summaries := must(collected(client.Task("t").Summaries(t.Context(), nil)))(t)
	if len(summaries) != 2 || summaries[0].Seq != 1 || summaries[1].Seq != 2 {
		t.Errorf("%v", summaries)
	}
}

func TestALeaseIsRenewedUntilItIsGone(t *testing.T) {
	t.Parallel()
	f, client := startFailing(t, nil, refused(t, codes.Internal, contextstore.InternalError, 0), nil,
		refused(t, codes.Aborted, contextstore.StaleLease, 0))
	task := must(client.StartTask(t.Context(), nil))(t)
	count := func(task *contextstore.Task) int {
		f.mu.Lock()
		defer f.mu.Unlock()
		renewed := 0
		for _, request := range f.renewed {
			if request.GetTaskUuid() == task.UUID && request.GetLeaseGeneration() == 4 {
				renewed++
			}
		}
		return renewed
	}
	eventually(t, "four renewals", func() bool { return count(task) >= 4 && f.left() == 0 })
	// Time enough for more of them: another lease has got some.
	other := must(client.StartTask(t.Context(), nil))(t)
	eventually(t, "renewals of another lease", func() bool { return count(other) >= 4 })
	if count(task) != 4 || task.LeaseGeneration() != 4 {
		t.Errorf("%d renewals", count(task))
	}
	if f.headers.Get(":authority")[0] != "localhost" {
		t.Errorf("%v", f.headers)
	}
}

func TestAMessageThatCannotBeSentIsToldAlsoAcrossACut(t *testing.T) {
	t.Parallel()
	_, client := startFailing(t, status.Error(codes.Unavailable, "gone"))
	silence := make(chan struct{})
	defer close(silence)
	messages := func(yield func(any) bool) {
		if yield(user("Once.")) && yield(func() {}) {
			<-silence
		}
	}
	acks, err := collected(client.Task("t").AppendMany(t.Context(), messages))
	var failure *contextstore.Error
	if len(acks) != 1 || !errors.As(err, &failure) || failure.Code != codes.InvalidArgument {
		t.Errorf("%v %v", acks, err)
	}
}

func TestABodyIsClosedWhileItIsRead(t *testing.T) {
	t.Parallel()
	f, client := startFailing(t)
	body := must(client.Task("t").Current(t.Context(), nil))(t)
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(body)
		ended <- err
	}()
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
	<-f.away
}

func TestOverTLSTheTokenIsSentToWhomIsTrusted(t *testing.T) {
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&other.TLS.Certificates[0])))
	defer server.Stop()
	f := &failing{}
	pb.RegisterContextStoreServer(server, f)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go server.Serve(listener)
	address := "tls:" + listener.Addr().String()

	stranger := must(contextstore.Connect(address, contextstore.WithRetryFor(0)))(t)
	defer stranger.Close()
	_, err := stranger.StartTask(t.Context(), nil)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}

	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTEXTSTORE_ADDRESS", address)
	t.Setenv("CONTEXTSTORE_TOKEN", "secret")
	t.Setenv("CONTEXTSTORE_CA_FILE", ca)
	client := must(contextstore.FromEnv())(t)
	defer client.Close()
	must(client.StartTask(t.Context(), nil))(t)
	if got := f.headers.Get("authorization"); !slices.Equal(got, []string{"Bearer secret"}) {
		t.Errorf("%v", got)
	}
	t.Setenv("CONTEXTSTORE_CA_FILE", filepath.Join(t.TempDir(), "none"))
	if _, err := contextstore.FromEnv(); err == nil {
		t.Error("there is no such file")
	}
	if _, err := contextstore.Connect("unix:/a", contextstore.WithTLS(nil)); err != nil {
		t.Error(err)
	}
	if _, err := contextstore.Connect("unix:/a", contextstore.WithTLS(&tls.Config{})); err == nil {
		t.Error("a socket has no TLS")
	}
}
