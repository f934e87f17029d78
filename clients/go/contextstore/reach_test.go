// Where a server is, and what a client says if there is none, or another one.

package contextstore_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// feature: address-any-name
func TestADataDirectoryMayHaveAnyName(t *testing.T) {
	for _, name := range []string{"%41%2Fb 100%", "a#b?c,d", " ü東 ", "@a", `unix:a\b`, "..."} {
		dir := filepath.Join(shortDir(t), name)
		server := spawn(t, dir)
		for _, address := range []string{"unix:" + dir + "/contextstore.sock", "unix:///" + dir[1:] + "/contextstore.sock"} {
			client := must(contextstore.Connect(address))(t)
			if info := must(client.ServerInfo(t.Context()))(t); info.GetDataDir() != dir {
				t.Errorf("%q leads to %q", dir, info.GetDataDir())
			}
			client.Close()
		}
		// Relative to the working directory, also after that was changed.
		t.Chdir(filepath.Dir(dir))
		client := must(contextstore.Connect("unix:" + name + "/contextstore.sock"))(t)
		t.Setenv("CONTEXTSTORE_DATA_DIR", name)
		other := must(contextstore.FromEnv())(t)
		t.Chdir("/")
		for _, client := range []*contextstore.Client{client, other} {
			if _, err := client.ServerInfo(t.Context()); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			client.Close()
		}
		server.Stop()
	}
}

// feature: no-server-advice
func TestACallWithoutAServerSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	stale := filepath.Join(dir, "stale.sock")
	listener := must(net.Listen("unix", stale))(t)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	port := "tcp:" + freePort(t)
	for address, words := range map[string][]string{
		"unix:" + dir + "/contextstore.sock":      {dir + "/contextstore.sock", "there is no such socket", "contextstore serve --data-dir " + dir, "Spawn", "WaitUntilReady"},
		"unix:nowhere/contextstore.sock":          {"there is no directory nowhere (seen from "},
		"unix:" + stale:                           {"its server has ended"},
		"unix:" + dir + "/none/contextstore.sock": {"there is no directory " + dir + "/none"},
		port: {port, "nothing listens on that port", "Is the address right"},
	} {
		// Nothing is tried again: the test would not end in time.
		client := must(contextstore.Connect(address, contextstore.WithRetryFor(time.Hour), contextstore.WithTimeout(time.Hour)))(t)
		task := client.Task("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10")
		_, read := task.Current(t.Context(), nil)
		_, many := collected(task.AppendMany(t.Context(), slices.Values([]any{user("x")})))
		_, put := task.Outputs().Put(t.Context(), nil, strings.NewReader("x"))
		_, asked := client.ServerInfo(t.Context())
		handed := task.AppendLater(t.Context(), user("x"))
		flushed := task.Flush(t.Context())
		for _, err := range []error{read, many, put, asked, flushed} {
			var failure *contextstore.Error
			if !errors.Is(err, contextstore.ErrNoServer) || !errors.As(err, &failure) || failure.Code != codes.Unavailable || handed != nil {
				t.Errorf("%s: %v", address, err)
			}
			for _, words := range words {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in %v", words, err)
				}
			}
		}
		if left := notAppended(t, flushed); len(left) != 1 {
			t.Errorf("%v", left)
		}
		client.Close()
	}
}

// A server that is started later is waited for where that is asked for, and one that was there once always is.
func TestAServerThatStartsIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.kill()
	client := s.connect("unix")
	if _, err := client.ServerInfo(t.Context()); !errors.Is(err, contextstore.ErrNoServer) {
		t.Errorf("%v", err)
	}
	ready := make(chan error)
	go func() { ready <- client.WaitUntilReady(t.Context()) }()
	s.start()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	s.kill()
	asked := make(chan error)
	go func() {
		_, err := client.ServerInfo(t.Context())
		asked <- err
	}()
	s.start()
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

// stranger listens where a server might, and remembers what is sent to it.
type stranger struct {
	pb.UnimplementedContextStoreServer
	mu   sync.Mutex
	sent []string
}

func (s *stranger) GetServerInfo(ctx context.Context, _ *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, headers.Get("authorization")...)
	return &pb.GetServerInfoResponse{}, nil
}

// feature: token-only-to-holder
func TestTheTokenOfADirectoryGoesToItsServerOnly(t *testing.T) {
	s := startServer(t)
	t.Setenv("CONTEXTSTORE_DATA_DIR", s.dataDir)
	ask := func(address string) error {
		t.Setenv("CONTEXTSTORE_ADDRESS", address)
		client := must(contextstore.FromEnv(contextstore.WithRetryFor(0)))(t)
		defer client.Close()
		_, err := client.ServerInfo(t.Context())
		return err
	}
	for _, address := range []string{s.tcp, strings.Replace(s.tcp, "127.0.0.1", "localhost", 1)} {
		if err := ask(address); err != nil {
			t.Fatal(err)
		}
	}
	other := &stranger{}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	elsewhere := grpc.NewServer()
	pb.RegisterContextStoreServer(elsewhere, other)
	go elsewhere.Serve(listener)
	defer elsewhere.Stop()
	// The server of the directory runs, but not there.
	if err := ask("tcp:" + listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "its server listens at "+s.unix+" and "+s.tcp) {
		t.Errorf("%v", err)
	}
	// It is starting: that may be over soon.
	written := filepath.Join(s.dataDir, "addresses")
	addresses := must(os.ReadFile(written))(t)
	if err := os.Remove(written); err != nil {
		t.Fatal(err)
	}
	if err := ask(s.tcp); err == nil || errors.Is(err, contextstore.ErrNoServer) || !strings.Contains(err.Error(), "may be starting") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(written, addresses, 0o600); err != nil {
		t.Fatal(err)
	}
	// It has ended, and its addresses are left.
	s.kill()
	if err := ask(s.tcp); !errors.Is(err, contextstore.ErrNoServer) || !strings.Contains(err.Error(), "it has no running server") {
		t.Errorf("%v", err)
	}
	// A directory that nobody has named says nothing.
	os.Unsetenv("CONTEXTSTORE_DATA_DIR")
	here := shortDir(t)
	if err := errors.Join(os.Mkdir(filepath.Join(here, "contexts"), 0o700),
		os.WriteFile(filepath.Join(here, "contexts", "token"), []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	if err := ask("tcp:" + listener.Addr().String()); err != nil {
		t.Errorf("%v", err)
	}
	if len(other.sent) != 0 {
		t.Errorf("the stranger has %v", other.sent)
	}
}

// feature: token-file
func TestATokenMayEndWithANewline(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	token := strings.TrimSpace(string(must(os.ReadFile(filepath.Join(s.dataDir, "token")))(t)))
	ask := func(option contextstore.Option) error {
		client, err := contextstore.Connect(s.tcp, option)
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.ServerInfo(t.Context())
		return err
	}
	file := filepath.Join(t.TempDir(), "token")
	for text, ok := range map[string]bool{token: true, token + "\n": true, token + "\r\n": true, token + " ": false, " " + token: false, token + "\t\n": false,
		token + "\n\n": false, token + "\r": false, token + "\r\n\n": false, token + "\r\r\n": false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, option := range []contextstore.Option{contextstore.WithToken(text), contextstore.WithTokenFile(file)} {
			if err := ask(option); (err == nil) != ok {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// feature: tasks-by-key
func TestATaskIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *server, client *contextstore.Client) {
		ctx := t.Context()
		key := &pb.TaskKey{TaskSource: "github", Owner: "o", Repo: "r", TaskId: "7"}
		listed := func(uuid string, status pb.TaskStatus) {
			eventually(t, "the catalog knows it", func() bool {
				for found, err := range client.ListTasks(ctx, nil) {
					if err == nil && found.GetUuid() == uuid && found.GetStatus() == status {
						return true
					}
				}
				return false
			})
		}
		request := &pb.StartTaskRequest{Key: key, User: "ada", SystemMessage: "You fix bugs."}
		first := must(client.ResumeOrStartTask(ctx, request))(t)
		if first.Resumed || !first.Created || len(view(t, first)) != 1 {
			t.Errorf("%+v", first)
		}
		listed(first.UUID, pb.TaskStatus_TASK_STATUS_RUNNING)
		// Others are others, also if they have only a part of the key.
		for _, other := range []*pb.StartTaskRequest{
			{Key: key, User: "bob"}, {Key: key}, {Key: &pb.TaskKey{TaskId: "7"}, User: "ada"}, {Key: &pb.TaskKey{Repo: "r"}, User: "ada"},
		} {
			if task := must(client.ResumeOrStartTask(ctx, other))(t); task.Resumed || task.UUID == first.UUID {
				t.Errorf("%v is %v", other, task.UUID)
			}
		}
		running := must(client.ResumeOrStartTask(ctx, request))(t)
		if running.UUID != first.UUID || !running.Resumed || running.Created || running.LeaseGeneration() == 0 {
			t.Errorf("%+v", running)
		}
		// Also while the catalog still has it as running.
		must(running.Pause(ctx))(t)
		paused := must(client.ResumeOrStartTask(ctx, request))(t)
		if paused.UUID != first.UUID || !paused.Resumed {
			t.Errorf("%+v", paused)
		}
		_, err := s.connect("unix").ResumeOrStartTask(ctx, request)
		isReason(t, err, contextstore.LeaseHeld)
		must(paused.Complete(ctx, "Fixed it."))(t)
		second := must(client.ResumeOrStartTask(ctx, request))(t)
		if second.UUID == first.UUID || second.Resumed {
			t.Errorf("%+v", second)
		}
		for _, wrong := range []*pb.StartTaskRequest{nil, {User: "ada"}, {Key: key, TaskUuid: first.UUID}} {
			_, err := client.ResumeOrStartTask(ctx, wrong)
			isReason(t, err, contextstore.InvalidField)
		}
	})
}
