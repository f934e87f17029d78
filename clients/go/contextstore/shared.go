// A server that programs share: the one that holds a data directory, or one that is started and ends with its last client.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// A server that programs share ends when it has had no client for so long.
	idleStop = "30s"
	// How often a server may end at once although nobody holds its directory: a look at the lock takes it for a moment.
	mostStarts = 3
)

// ConnectOrSpawn connects to the server that holds a data directory, or starts one and waits until it answers. Any number of
// programs may do so, also at once: they get the same server. It goes on when the program that started it ends, and stops by
// itself 30 seconds after its last client has gone, or after what WithServerArguments("--stop-when-idle", "5m") says. Its log
// is server.log in the directory. If the path of its socket there had more than 107 bytes, the socket is in a temporary
// folder, which remains.
//
//	client, err := contextstore.ConnectOrSpawn(ctx, "contexts")
//	if err != nil { … }
//	defer client.Close()
//
// Closing the client does not stop the server. The context is for connecting only. The options are those of the client, and
// [WithBinary], [WithServerArguments], [WithServerEnv] and [WithStartTimeout], which mean something if a server is started.
func ConnectOrSpawn(ctx context.Context, dataDir string, options ...Option) (*Client, error) {
	if dataDir == "" {
		return nil, errors.New("contextstore: ConnectOrSpawn needs a data directory; Spawn takes a temporary one")
	}
	s := gatheredSettings(options)
	s.stays = true
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("contextstore: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.startFor)
	defer cancel()
	shared := &sharedServer{settings: s, dataDir: dataDir, log: inside(dataDir, "server.log")}
	for {
		client, err := shared.find(ctx)
		if client != nil {
			return client, nil
		}
		if err == nil {
			err = shared.launch(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// sharedServer is the server of a data directory, whoever has started it.
type sharedServer struct {
	settings *settings
	dataDir  string
	log      string
	starts   int
}

// find connects to the server that holds the directory; neither a client nor an error if nobody holds it.
func (s *sharedServer) find(ctx context.Context) (*Client, error) {
	var last error
	for {
		locked, err := isLocked(inside(s.dataDir, "LOCK"))
		if err != nil {
			return nil, fmt.Errorf("contextstore: whether a server holds %s is not known: %w", s.dataDir, err)
		}
		if !locked {
			return nil, nil
		}
		client, err := s.connect(ctx)
		if err == nil {
			return client, nil
		}
		last = err
		// It is starting or stopping.
		select {
		case <-time.After(25 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("contextstore: a server holds %s, but it cannot be reached: %w; %s: %s",
				s.dataDir, last, s.log, endOfLog(s.log))
		}
	}
}

// connect connects to where the server of the directory listens, if it is there.
func (s *sharedServer) connect(ctx context.Context) (*Client, error) {
	settings := *s.settings
	// Where it says itself that it listens: a socket in the directory may be left of another.
	address, ok := preferred(writtenAddresses(s.dataDir))
	if !ok {
		address = addressIn(s.dataDir)
	}
	if strings.HasPrefix(address, "tcp:") && settings.token == "" && settings.tokenFile == "" {
		settings.dataDir = s.dataDir
	}
	client, err := settings.connect(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	err = client.WaitUntilReady(ctx)
	if err == nil {
		_, err = client.ServerInfo(ctx)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// launch starts a server, and waits until it answers or has ended because another one holds the directory.
func (s *sharedServer) launch(ctx context.Context) error {
	if err := os.MkdirAll(s.dataDir, 0o700); err != nil {
		return fmt.Errorf("contextstore: %w", err)
	}
	other := ""
	socket, err := socketIn(s.dataDir, func() (string, error) {
		var err error
		other, err = os.MkdirTemp("", "contextstore-")
		return other, err
	})
	if err != nil {
		return fmt.Errorf("contextstore: %w", err)
	}
	// Under a name of its own until the server answers: one that ends because another was faster leaves that one's log alone.
	log, err := os.CreateTemp(s.dataDir, ".server.log-*")
	if err != nil {
		return fmt.Errorf("contextstore: the log of the server: %w", err)
	}
	defer log.Close()
	s.starts++
	process, err := s.settings.launch(s.dataDir, socket, log, nil, "--stop-when-idle", idleStop)
	if err == nil {
		err = process.wait(ctx)
	}
	if err == nil {
		return os.Rename(log.Name(), s.log)
	}
	defer os.Remove(log.Name())
	if other != "" && err == errEnded {
		os.RemoveAll(other)
	}
	if process == nil {
		return err
	}
	if locked, _ := isLocked(inside(s.dataDir, "LOCK")); err == errEnded && (locked || s.starts < mostStarts) {
		// Another program was faster.
		return nil
	}
	return process.failure(err)
}
