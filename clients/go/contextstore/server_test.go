// The real server for tests: a process on a directory of its own that can be killed and started again.

package contextstore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contextstore/contextstore/clients/go/contextstore"
)

const repository = "../../.."

// deadline is after how long a test gives up on what it waits for; on an idle machine it is there in milliseconds.
const deadline = time.Minute

// binary is the server: that of CONTEXTSTORE_BIN, or the one that was built. Other programs are built beside it.
func binary(t *testing.T) string {
	t.Helper()
	return program(t, "CONTEXTSTORE_BIN", filepath.Join(repository, "target/debug/contextstore"))
}

// program is the one that a variable names, or else the usual one.
func program(t *testing.T, variable, usual string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = usual
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it, or name one in %s", err, variable)
	}
	return path
}

// freePort is one that nobody listens on now: a server that is started again gets the same. It is below those that the system
// gives to connections: one of those could be taken by another test before the server has it, or by a client that tries to reach
// the server while it is away, and then reaches itself.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(17_000))
		if probe, err := net.Listen("tcp", address); err == nil {
			probe.Close()
			return address
		}
	}
}

// server is `contextstore serve`, on a Unix socket and on TCP.
type server struct {
	t       *testing.T
	dataDir string
	unix    string
	tcp     string
	env     []string
	said    bytes.Buffer
	process *exec.Cmd
}

func startServer(t *testing.T, env ...string) *server {
	t.Helper()
	// Not the test's own directory: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "contextstore-go-")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t:       t,
		dataDir: dir,
		unix:    "unix:" + filepath.Join(dir, "contextstore.sock"),
		tcp:     "tcp:" + freePort(t),
		env:     env,
	}
	t.Cleanup(func() {
		s.kill()
		os.RemoveAll(dir)
	})
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(binary(s.t),
		"serve", "--data-dir", s.dataDir, "--listen", s.unix, "--listen", s.tcp)
	// What is set for the tests is not meant for this server.
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "CONTEXTSTORE_") {
			s.process.Env = append(s.process.Env, pair)
		}
	}
	s.process.Env = append(s.process.Env, s.env...)
	s.process.Stderr = &s.said
	// It does not outlive a test that was killed.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	client, err := contextstore.Connect(s.unix)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), deadline)
	defer cancel()
	if err := client.WaitUntilReady(ctx); err != nil {
		s.kill()
		s.t.Fatalf("%v: %s", err, s.said.String())
	}
}

// kill ends it as a crash would.
func (s *server) kill() {
	if s.process != nil {
		s.process.Process.Kill()
		s.process.Wait()
		s.process = nil
	}
}

// connect makes a client over unix or tcp that ends with the test.
func (s *server) connect(transport string, options ...contextstore.Option) *contextstore.Client {
	s.t.Helper()
	address := s.unix
	if transport == "tcp" {
		address = s.tcp
		options = append([]contextstore.Option{contextstore.WithTokenFile(filepath.Join(s.dataDir, "token"))}, options...)
	}
	client, err := contextstore.Connect(address, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { client.Close() })
	return client
}

// overBoth runs a test over both transports, each with a server of its own.
func overBoth(t *testing.T, test func(t *testing.T, s *server, client *contextstore.Client)) {
	for _, transport := range []string{"unix", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			test(t, s, s.connect(transport))
		})
	}
}

// eventually polls until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so in time: %s", what)
		}
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
