// The connection to one server, and what is asked of it beside its tasks.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Client is a connection to one server. It may be used by many goroutines at once.
type Client struct {
	// Stub makes calls without help: with the token, but without retries, leases and typed errors.
	Stub pb.ContextStoreClient
	// OutputsStub is the same for tool outputs.
	OutputsStub pb.ToolOutputsClient

	conn     *grpc.ClientConn
	address  address
	dial     func(context.Context, string) (net.Conn, error)
	holder   *pb.Holder
	timeout  time.Duration
	retryFor time.Duration
	closeFor time.Duration
	closing  context.Context
	close    context.CancelFunc
	// Whether the server has ever answered.
	reached atomic.Bool
	limit   messageLimit
	handed  appenders
}

// Connect prepares a connection to unix:/path/of/contextstore.sock, tcp:127.0.0.1:PORT or tls:HOST:PORT. It is made by the first
// call.
func Connect(address string, options ...Option) (*Client, error) {
	s := gatheredSettings(options)
	if s.starts != "" {
		return nil, fmt.Errorf("contextstore: %s is for Spawn and ConnectOrSpawn; Connect starts no server", s.starts)
	}
	return s.connect(address)
}

// connect makes the client of an address.
func (s *settings) connect(address string) (*Client, error) {
	where, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	network, endpoint, err := where.endpoint()
	if err != nil {
		return nil, err
	}
	connects := dialer(network, endpoint)
	token, err := newToken(s, where)
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
		// The name of the target means nothing to it: a path may have characters that are special in a URL. It asks no proxy.
		grpc.WithContextDialer(connects),
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
	target := "passthrough:///" + where.host
	if where.path != "" {
		// A path is no authority: over a Unix socket the server is always localhost.
		target = "passthrough:///unix"
		dial = append(dial, grpc.WithAuthority("localhost"))
	}
	if s.stays {
		dial = append(dial, grpc.WithIdleTimeout(0))
	}
	dial = append(append(dial, token.dialOptions()...), s.dial...)
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("contextstore: %w", err)
	}
	hostname, _ := os.Hostname()
	closing, end := context.WithCancel(context.Background())
	client := &Client{
		Stub:        pb.NewContextStoreClient(conn),
		OutputsStub: pb.NewToolOutputsClient(conn),
		conn:        conn,
		address:     where,
		dial:        connects,
		holder:      &pb.Holder{InstanceId: s.instanceID, ProcessId: uint32(os.Getpid()), Hostname: hostname},
		timeout:     s.timeout,
		retryFor:    s.retryFor,
		closeFor:    s.closeFor,
		closing:     closing,
		close:       end,
	}
	if s.stays {
		go client.stayConnected()
	}
	return client, nil
}

// stayConnected connects again whenever the connection ends, so that a server that stops without clients goes on.
func (c *Client) stayConnected() {
	for state := c.conn.GetState(); ; state = c.conn.GetState() {
		c.conn.Connect()
		if !c.conn.WaitForStateChange(c.closing, state) {
			return
		}
	}
}

// Conn is the connection, for stubs of one's own.
func (c *Client) Conn() *grpc.ClientConn {
	return c.conn
}

// Close ends the connection, every call on it and the renewing of leases. Tasks stay as they are. It first waits until all that
// was handed to [Task.AppendLater] is on disk, for at most 10 seconds ([WithCloseTimeout]), and returns an [*Error] for each
// task of which something is not, joined if they are several ([NotAppended] gives all of it). Calling it again does nothing.
func (c *Client) Close() error {
	failed := c.handed.close(c.closeFor)
	if c.closing.Err() != nil {
		return failed
	}
	c.close()
	return errors.Join(failed, c.conn.Close())
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
			c.reached.Store(true)
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
			if problem := c.look(context.WithoutCancel(ctx)); problem != "" {
				last = fmt.Errorf("%w; %s", last, problem)
			}
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

// ResumeOrStartTask goes on with the newest running or paused task of the key and user of the request, or starts one: so an
// agent that was restarted goes on where it was, which Resumed of the task tells. The rest of the request is for a task that is
// started; one that is there keeps its own. [LeaseHeld] if another client works on it. A task that another client has made
// less than a second ago may not be found.
func (c *Client) ResumeOrStartTask(ctx context.Context, request *pb.StartTaskRequest) (*Task, error) {
	key := request.GetKey()
	if key.GetTaskSource()+key.GetOwner()+key.GetRepo()+key.GetTaskType()+key.GetTaskId() == "" {
		return nil, invalidField(InvalidField, "key", nil, "a task is found by its key: give at least key.task_id, or use StartTask")
	}
	if request.GetTaskUuid() != "" {
		return nil, invalidField(InvalidField, "task_uuid", nil, "a task is found by its key: use StartTask to name it")
	}
	filter := &pb.TaskFilter{
		Statuses:   []pb.TaskStatus{pb.TaskStatus_TASK_STATUS_RUNNING, pb.TaskStatus_TASK_STATUS_PAUSED},
		TaskSource: key.GetTaskSource(), Owner: key.GetOwner(), Repo: key.GetRepo(), TaskType: key.GetTaskType(),
		TaskId: key.GetTaskId(), User: request.GetUser(),
	}
	for found, err := range c.ListTasks(ctx, &pb.ListTasksRequest{Filter: filter, PageSize: 10}) {
		if err != nil {
			return nil, err
		}
		// An empty part of a filter matches everything.
		if !proto.Equal(found.GetKey(), key) || found.GetUser() != request.GetUser() {
			continue
		}
		task, err := c.takeUp(ctx, found)
		if task != nil || err != nil {
			return task, err
		}
	}
	return c.StartTask(ctx, request)
}

// takeUp goes on with a task that was listed; neither a task nor an error if it has ended since.
func (c *Client) takeUp(ctx context.Context, found *pb.Task) (*Task, error) {
	resume := func() (*Task, error) { return c.ResumeTask(ctx, found.GetUuid()) }
	start := func() (*Task, error) {
		return c.StartTask(ctx, &pb.StartTaskRequest{TaskUuid: found.GetUuid()})
	}
	// The list is behind the tasks by up to a second: a task may have been paused, or have gone on, meanwhile.
	attempts := []func() (*Task, error){start, resume}
	if found.GetStatus() == pb.TaskStatus_TASK_STATUS_PAUSED {
		attempts = []func() (*Task, error){resume, start}
	}
	for _, attempt := range attempts {
		task, err := attempt()
		switch {
		case err == nil:
			task.Resumed = true
			return task, nil
		case errors.Is(err, TaskNotFound):
			return nil, nil
		case !errors.Is(err, WrongStatus) && !errors.Is(err, TaskExists):
			return nil, err
		}
	}
	return nil, nil
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
	task.later.task = task
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
