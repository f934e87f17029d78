// How a process of the server is started: its program, its environment, its log. Knows nothing of who it is for.

package contextstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// findBinary is the program of the server.
func (s *settings) findBinary() (string, error) {
	if s.binary != "" {
		return s.binary, nil
	}
	if named := os.Getenv("CONTEXTSTORE_BINARY"); named != "" {
		if _, err := exec.LookPath(named); err != nil {
			return "", fmt.Errorf("contextstore: CONTEXTSTORE_BINARY is %s, which is no program that can be run: %w", named, err)
		}
		return named, nil
	}
	found, err := exec.LookPath("contextstore")
	if err != nil {
		return "", errors.New("contextstore: the server's program was not found: CONTEXTSTORE_BINARY is not set, and there is no " +
			"`contextstore` on the PATH; name it by WithBinary")
	}
	return filepath.Abs(found)
}

// socketIn is where the server of a data directory listens: in the directory, or if that path is too long, in a private
// temporary folder that makeOther makes.
func socketIn(dataDir string, makeOther func() (string, error)) (string, error) {
	socket := inside(dataDir, "contextstore.sock")
	if len(socket) <= longestSocket {
		return socket, nil
	}
	other, err := makeOther()
	return inside(other, "contextstore.sock"), err
}

// launched is a process of the server.
type launched struct {
	command *exec.Cmd
	address string
	log     string
	// Closed when it has ended.
	ended chan struct{}
}

// launch starts a server. Its process ends with its standard input, or by itself: the arguments say so. Those that the program
// gives come behind them: the last one counts.
func (s *settings) launch(dataDir, socket string, log, stdin *os.File, arguments ...string) (*launched, error) {
	binary, err := s.findBinary()
	if err != nil {
		return nil, err
	}
	l := &launched{address: "unix:" + socket, log: log.Name(), ended: make(chan struct{})}
	l.command = exec.Command(binary, "serve", "--data-dir", dataDir, "--listen", l.address)
	l.command.Args = append(append(l.command.Args, arguments...), s.arguments...)
	// What the environment says to other servers is not meant for this one.
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "CONTEXTSTORE_") {
			l.command.Env = append(l.command.Env, pair)
		}
	}
	l.command.Env = append(l.command.Env, s.env...)
	l.command.Stdout, l.command.Stderr = log, log
	if stdin != nil {
		l.command.Stdin = stdin
	}
	l.command.SysProcAttr = ownSession()
	if err := l.command.Start(); err != nil {
		return nil, fmt.Errorf("contextstore: the server cannot be started: %w", err)
	}
	go func() {
		_ = l.command.Wait()
		close(l.ended)
	}()
	return l, nil
}

var errEnded = errors.New("it has ended")

// wait waits until the process answers; errEnded if it ended before.
func (l *launched) wait(ctx context.Context) error {
	probe, err := Connect(l.address, WithTimeout(0))
	if err != nil {
		return err
	}
	defer probe.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-l.ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	for {
		err := probe.WaitUntilReady(ctx)
		if err == nil {
			// Another server may be there, whose directory it is.
			info, asked := probe.ServerInfo(ctx)
			if asked == nil && int(info.GetProcessId()) == l.command.Process.Pid {
				return nil
			}
			err = asked
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause == errEnded {
				return errEnded
			}
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// failure is why the server is not there, with the end of its log.
func (l *launched) failure(err error) error {
	what := err.Error()
	if err == errEnded {
		what = "it ended at once: " + l.command.ProcessState.String()
	}
	made := fmt.Errorf("contextstore: the server did not start: %s; its log: %s", what, endOfLog(l.log))
	return made
}

// endOfLog is what a server has said last.
func endOfLog(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text[max(0, len(text)-2000):])
	if len(text) == 0 {
		return "it is empty"
	}
	return string(text)
}

// kill ends the process, and waits for that.
func (l *launched) kill() {
	_ = l.command.Process.Kill()
	<-l.ended
}
