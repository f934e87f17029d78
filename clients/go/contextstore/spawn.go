// A private server: started for this program, and stopped with it.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// spawnedInstance holds the leases in a directory of a private server: it is always the one program whose server it is. Under a
// name of its own, each start would have to wait for the leases of the one before.
const spawnedInstance = "spawned"

// stopping is how long a server may take to stop in order.
const stopping = 15 * time.Second

// Server is a server that belongs to this program. Made by [Spawn].
type Server struct {
	// Address is where it listens, for other clients.
	Address string
	// DataDir is where it keeps everything.
	DataDir string
	// LogFile is what it says.
	LogFile string

	client   *Client
	process  *launched
	lifeline *os.File
	own      string
	once     sync.Once
	stopped  error
}

// Spawn starts a private server and waits until it answers. Stop stops it; it also stops in order when this program ends,
// whatever ends it, and never by Ctrl-C alone.
//
//	server, err := contextstore.Spawn(ctx, "")
//	if err != nil { … }
//	defer server.Stop()
//	task, err := server.Client().StartTask(ctx, nil)
//
// It keeps everything in dataDir, or if that is empty, in a temporary directory that Stop removes, and that stays behind if the
// program is killed. A program that was killed
// and comes back to the same directory goes on with its tasks at once. The context is for the start only. The options are
// those of the client, and [WithBinary], [WithServerArguments], [WithServerEnv] and [WithStartTimeout].
func Spawn(ctx context.Context, dataDir string, options ...Option) (*Server, error) {
	own, err := os.MkdirTemp("", "contextstore-")
	if err != nil {
		return nil, fmt.Errorf("contextstore: %w", err)
	}
	s := &Server{DataDir: dataDir, LogFile: filepath.Join(own, "server.log"), own: own}
	if err := s.start(ctx, append([]Option{WithInstanceID(spawnedInstance)}, options...)); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, options []Option) error {
	settings := gatheredSettings(options)
	if s.DataDir == "" {
		s.DataDir = filepath.Join(s.own, "data")
	}
	var err error
	if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
		return fmt.Errorf("contextstore: %w", err)
	}
	socket, err := socketIn(s.DataDir, func() (string, error) { return s.own, nil })
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("contextstore: the log of the server: %w", err)
	}
	defer log.Close()
	// The pipe is there before the process: whenever this program ends, its end is the end of the server.
	input, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("contextstore: %w", err)
	}
	defer input.Close()
	s.lifeline = lifeline
	s.process, err = settings.launch(s.DataDir, socket, log, input, "--stop-with-stdin")
	if err != nil {
		return err
	}
	s.Address = s.process.address
	ctx, cancel := context.WithTimeout(ctx, settings.startFor)
	defer cancel()
	if err := s.process.wait(ctx); err != nil {
		return s.process.failure(err)
	}
	s.client, err = settings.connect(s.Address)
	return err
}

// Client is a client of the server, which Stop closes.
func (s *Server) Client() *Client {
	return s.client
}

// PID is the id of its process.
func (s *Server) PID() int {
	return s.process.command.Process.Pid
}

// Stop closes the client, as [Client.Close] does, stops the server in order, and removes its data if no directory was given.
// Calling it again does nothing but answer the same.
func (s *Server) Stop() error {
	s.once.Do(func() { s.stopped = errors.Join(s.client.Close(), s.end()) })
	return s.stopped
}

// end ends what there is of the process, and removes what is its own.
func (s *Server) end() error {
	var failed error
	if s.lifeline != nil {
		s.lifeline.Close()
	}
	if s.process != nil {
		timer := time.NewTimer(stopping)
		defer timer.Stop()
		select {
		case <-s.process.ended:
		case <-timer.C:
			failed = fmt.Errorf("contextstore: the server did not stop within %v, so it was killed; its log: %s", stopping, endOfLog(s.LogFile))
			s.process.kill()
		}
	}
	return errors.Join(failed, os.RemoveAll(s.own))
}
