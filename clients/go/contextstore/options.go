// The options of a client, and of a server that it starts.

package contextstore

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
)

// Option changes how a client connects.
type Option func(*settings)

type settings struct {
	token, tokenFile, dataDir string
	instanceID                string
	timeout                   time.Duration
	retryFor                  time.Duration
	tls                       *tls.Config
	closeFor                  time.Duration
	dial                      []grpc.DialOption
	// Whether the client keeps its connection while it makes no calls.
	stays bool
	// For a server that is started; starts names the last option of this kind, if there is one.
	starts    string
	binary    string
	arguments []string
	env       []string
	startFor  time.Duration
}

func gatheredSettings(options []Option) *settings {
	s := &settings{
		instanceID: newID(), timeout: 30 * time.Second, retryFor: 10 * time.Second, closeFor: 10 * time.Second,
		startFor: 30 * time.Second,
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// WithToken gives the token for TCP. The Unix socket needs none. A line end behind it is removed.
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

// WithCloseTimeout is how long [Client.Close] and [Task.Close] wait for what was handed to [Task.AppendLater]: 10 seconds.
func WithCloseTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.closeFor = timeout }
}

// WithDialOptions hands options to gRPC, as for tracing.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// WithBinary names the program of the server, for [Spawn] and [ConnectOrSpawn]. Without it, that is the one that
// CONTEXTSTORE_BINARY names, or `contextstore` on the PATH.
func WithBinary(path string) Option {
	return func(s *settings) { s.starts, s.binary = "WithBinary", path }
}

// WithServerArguments adds arguments to `contextstore serve`, for [Spawn] and [ConnectOrSpawn].
func WithServerArguments(arguments ...string) Option {
	return func(s *settings) {
		s.starts, s.arguments = "WithServerArguments", append(s.arguments, arguments...)
	}
}

// WithServerEnv adds variables, such as CONTEXTSTORE_LLM__PROVIDER=openai, to the environment of the server, for [Spawn] and
// [ConnectOrSpawn]. It has the environment of this program, but none of its variables that begin with CONTEXTSTORE_.
func WithServerEnv(variables ...string) Option {
	return func(s *settings) { s.starts, s.env = "WithServerEnv", append(s.env, variables...) }
}

// WithStartTimeout is how long [Spawn] and [ConnectOrSpawn] wait for the server: 30 seconds.
func WithStartTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.starts, s.startFor = "WithStartTimeout", timeout }
}
