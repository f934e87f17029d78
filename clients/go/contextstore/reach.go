// What a call that failed says about the server: that there is none, in plain words, or that it is too old.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// lookFor is how long a look at an address, or the question for the version of a server, may take.
const lookFor = time.Second

// failed makes an Error of what an attempt at a call failed with. If the server was not reached and nothing listens at its
// address, the error says so; and if the client has never reached it, a retry is not worth while.
func (c *Client) failed(ctx context.Context, method string, err error) *Error {
	failure := asError(err)
	switch {
	case failure.kind != nil:
		return failure.withFinal(failure.kind == ErrUnsupportedByServer || !c.reached.Load())
	case failure.Code == codes.Unimplemented && failure.Reason == "":
		c.reached.Store(true)
		return c.unsupported(ctx, method, failure)
	case failure.Code == codes.Unavailable && failure.Reason == "":
		if problem := c.look(ctx); problem != "" {
			return c.noServer(problem, failure)
		}
	case failure.Code != codes.Canceled && failure.Code != codes.DeadlineExceeded:
		c.reached.Store(true)
	}
	return failure
}

func (e *Error) withFinal(final bool) *Error {
	changed := *e
	changed.final = final
	return &changed
}

func (c *Client) noServer(problem string, cause error) *Error {
	hint := ""
	wasThere := c.reached.Load()
	if !wasThere {
		hint = ". Is the address right, and the server running?"
		if path := c.address.path; path != "" {
			hint = fmt.Sprintf(
				". `contextstore serve --data-dir %s` starts one, contextstore.Spawn a private one, contextstore.ConnectOrSpawn one "+
					"that programs share", filepath.Dir(path))
		}
		hint += "; WaitUntilReady waits for one that is being started"
	}
	made := newError(codes.Unavailable, cause, "there is no server at %s: %s%s", c.address.text, problem, hint)
	made.kind, made.final = ErrNoServer, !wasThere
	return made
}

// look says why nothing can be reached at the address; empty if something listens there, or if that is not known.
func (c *Client) look(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	conn, err := c.dial(ctx, "")
	if err == nil {
		conn.Close()
		return ""
	}
	var unknown *net.DNSError
	path := c.address.path
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Sprintf("there is no directory %s%s", filepath.Dir(path), seenFrom(path))
		}
		return "there is no such socket" + seenFrom(path)
	case errors.Is(err, syscall.ECONNREFUSED) && path != "":
		return "the socket is there, but its server has ended"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on that port"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not connect to it: a socket is for the user of its server"
	case errors.As(err, &unknown):
		return fmt.Sprintf("the name of the host is not known (%s)", unknown.Err)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("nobody answered within %v", lookFor)
	case ctx.Err() != nil:
		return ""
	}
	return err.Error()
}

func seenFrom(path string) string {
	here, err := os.Getwd()
	if err != nil || filepath.IsAbs(path) {
		return ""
	}
	return fmt.Sprintf(" (seen from %s)", here)
}

// unsupported is the error of a method that the server does not have.
func (c *Client) unsupported(ctx context.Context, method string, cause error) *Error {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	version := "its version is not known"
	if info, err := c.Stub.GetServerInfo(ctx, &pb.GetServerInfoRequest{}); err == nil && info.GetVersion() != "" {
		version = "its version is " + info.GetVersion()
	}
	made := newError(codes.Unimplemented, cause, "the server does not have the method %s (%s); upgrade the server", method, version)
	made.Metadata = map[string]string{"method": method}
	made.kind, made.final = ErrUnsupportedByServer, true
	return made
}
