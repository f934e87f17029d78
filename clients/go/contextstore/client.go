// The connection to one server, and what is asked of it beside its tasks.

package contextstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Client is a connection to one server. It may be used by many goroutines at once.
type Client struct {
	// Stub makes calls without help: with the token, but without retries, leases and typed errors.
	Stub pb.ContextStoreClient
	// OutputsStub is the same for tool outputs.
	OutputsStub pb.ToolOutputsClient

	conn     *grpc.ClientConn
	holder   *pb.Holder
	timeout  time.Duration
	retryFor time.Duration
	closing  context.Context
	close    context.CancelFunc
}

// Option changes how a client connects.
type Option func(*settings)

type settings struct {
	token, tokenFile, dataDir string
	instanceID                string
	timeout                   time.Duration
	retryFor                  time.Duration
	tls                       *tls.Config
	dial                      []grpc.DialOption
}

// WithToken gives the token for TCP. The Unix socket needs none.
func WithToken(token string) Option {
	return func(s *settings) { s.token, s.tokenFile, s.dataDir = token, "", "" }
}

// WithTokenFile names a file with the token. It is read for every call, as every start of the server makes a new token.
func WithTokenFile(path string) Option {
	return func(s *settings) { s.token, s.tokenFile, s.dataDir = "", path, "" }
}

// withDataDir takes the token of the server that runs on a data directory of this machine.
func withDataDir(path string) Option {
	return func(s *settings) { s.token, s.tokenFile, s.dataDir = "", "", path }
}

// WithTLS encrypts the connection, and says whom to trust; for TCP. An address tls:HOST:PORT does so by itself, and trusts whom
// the machine trusts.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.tls = config }
}

// WithInstanceID says who holds the tasks that this client starts; without it, a random one. Give one to take them up at once
// after a restart.
func WithInstanceID(id string) Option {
	return func(s *settings) { s.instanceID = id }
}

// WithTimeout is how long a unary call may take, with its retries, if its context has no deadline: 30 seconds. 0: any time.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// WithRetryFor is how long a call that failed in passing is tried again: 10 seconds. 0: not at all.
func WithRetryFor(lasts time.Duration) Option {
	return func(s *settings) { s.retryFor = lasts }
}

// WithDialOptions hands options to gRPC, as for tracing.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// Connect prepares a connection to unix:/path/of/contextstore.sock, tcp:127.0.0.1:PORT or tls:HOST:PORT. It is made by the first
// call.
func Connect(address string, options ...Option) (*Client, error) {
	s := settings{instanceID: newID(), timeout: 30 * time.Second, retryFor: 10 * time.Second}
	for _, option := range options {
		option(&s)
	}
	where, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	target, err := where.target()
	if err != nil {
		return nil, err
	}
	token, err := newToken(&s)
	if err != nil {
		return nil, err
	}
	secrecy := insecure.NewCredentials()
	switch {
	case s.tls != nil && where.path != "":
		return nil, fmt.Errorf("contextstore: TLS is for TCP; %s is a socket of this machine", address)
	case s.tls != nil || where.tls:
		secrecy = credentials.NewTLS(s.tls)
	case token.exists() && !where.isLocal():
		return nil, fmt.Errorf("contextstore: the token would cross the network in clear text to %s; use TLS", address)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(secrecy),
		grpc.WithNoProxy(),
		// The server keeps its own limits; a message may be larger than gRPC's 4 MiB.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		// A sidecar that was restarted is back within a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 25 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Tells a reader that waits for events that the server is gone without a word.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	if where.path != "" {
		// A path is no authority: over a Unix socket the server is always localhost.
		dial = append(dial, grpc.WithAuthority("localhost"))
	}
	dial = append(append(dial, token.dialOptions()...), s.dial...)
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("contextstore: %w", err)
	}
	hostname, _ := os.Hostname()
	closing, end := context.WithCancel(context.Background())
	return &Client{
		Stub:        pb.NewContextStoreClient(conn),
		OutputsStub: pb.NewToolOutputsClient(conn),
		conn:        conn,
		holder:      &pb.Holder{InstanceId: s.instanceID, ProcessId: uint32(os.Getpid()), Hostname: hostname},
		timeout:     s.timeout,
		retryFor:    s.retryFor,
		closing:     closing,
		close:       end,
	}, nil
}

// Conn is the connection, for stubs of one's own.
func (c *Client) Conn() *grpc.ClientConn {
	return c.conn
}

// Close ends the connection, every call on it and the renewing of leases. Tasks stay as they are.
func (c *Client) Close() error {
	c.close()
	return c.conn.Close()
}

// WaitUntilReady waits until the server says that it serves: it may still be starting, or mending what a crash left. Without
// a deadline it waits for as long as a call may take.
func (c *Client) WaitUntilReady(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, c.timeout)
	defer cancel()
	health := grpc_health_v1.NewHealthClient(c.conn)
	last := errors.New("nothing was heard of it")
	for {
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		switch {
		case err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING:
			return nil
		case err == nil:
			last = fmt.Errorf("its health is %s", answer.GetStatus())
		case ctx.Err() == nil && asError(err).Code != codes.Unavailable:
			return asError(err)
		case ctx.Err() == nil:
			last = err
		}
		timer := time.NewTimer(25 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			failure := asError(ctx.Err())
			failure.Message = fmt.Sprintf("the server is not ready: %v", last)
			return failure
		}
	}
}

// ServerInfo tells what the server is and what it takes.
func (c *Client) ServerInfo(ctx context.Context) (*pb.GetServerInfoResponse, error) {
	return invoke(ctx, c, c.Stub.GetServerInfo, &pb.GetServerInfoRequest{})
}

// StartTask makes a task, or takes up one that is running, and keeps its lease alive.
func (c *Client) StartTask(ctx context.Context, request *pb.StartTaskRequest) (*Task, error) {
	request = cloned(request)
	fill(&request.TaskUuid, newTaskUUID)
	fill(&request.RequestId, newID)
	if request.Holder == nil {
		request.Holder = c.holder
	}
	started, err := invoke(ctx, c, c.Stub.StartTask, request)
	if err != nil {
		return nil, err
	}
	task := c.Task(started.GetTask().GetUuid())
	task.Created = started.GetCreated()
	task.InheritedFrom = started.GetInheritedFrom()
	task.InheritanceComment = started.GetInheritanceComment()
	task.lease.take(started.GetLeaseGeneration(), started.GetLeaseTtl().AsDuration())
	return task, nil
}

// ResumeTask goes on with a paused task, and keeps its lease alive.
func (c *Client) ResumeTask(ctx context.Context, uuid string) (*Task, error) {
	task := c.Task(uuid)
	if _, err := task.Resume(ctx); err != nil {
		return nil, err
	}
	return task, nil
}

// ForkTask makes another task out of the first messages of one, whatever its status; each of the two stands alone.
func (c *Client) ForkTask(ctx context.Context, request *pb.ForkTaskRequest) (*Task, error) {
	request = cloned(request)
	fill(&request.NewTaskUuid, newTaskUUID)
	fill(&request.RequestId, newID)
	if request.Holder == nil {
		request.Holder = c.holder
	}
	forked, err := invoke(ctx, c, c.Stub.ForkTask, request)
	if err != nil {
		return nil, err
	}
	task := c.Task(forked.GetTask().GetUuid())
	task.Created = true
	task.lease.take(forked.GetLeaseGeneration(), forked.GetLeaseTtl().AsDuration())
	return task, nil
}

// Task is a task by its id, without a call and without a lease: to read it, or to change it while nobody holds it.
func (c *Client) Task(uuid string) *Task {
	task := &Task{UUID: uuid, client: c}
	task.lease.renew = func(ctx context.Context) (time.Duration, error) { return task.RenewLease(ctx) }
	task.lease.closing = c.closing
	return task
}

// ListTasks gives the tasks that match, page by page.
func (c *Client) ListTasks(ctx context.Context, request *pb.ListTasksRequest) iter.Seq2[*pb.Task, error] {
	return pages(func(token string) ([]*pb.Task, string, error) {
		request := cloned(request)
		if token != "" {
			request.PageToken = token
		}
		page, err := invoke(ctx, c, c.Stub.ListTasks, request)
		return page.GetTasks(), page.GetNextPageToken(), err
	})
}

// PreviousContexts gives tasks that ended and that a task with this key and user would go on with, newest first.
func (c *Client) PreviousContexts(
	ctx context.Context, request *pb.FindPreviousContextsRequest,
) ([]*pb.PreviousContext, error) {
	found, err := invoke(ctx, c, c.Stub.FindPreviousContexts, cloned(request))
	return found.GetContexts(), err
}

// InheritanceContext tells what a task would take over from one that ended. [NothingToInherit] if there is nothing.
func (c *Client) InheritanceContext(
	ctx context.Context, request *pb.GetInheritanceContextRequest,
) (*pb.GetInheritanceContextResponse, error) {
	return invoke(ctx, c, c.Stub.GetInheritanceContext, cloned(request))
}
