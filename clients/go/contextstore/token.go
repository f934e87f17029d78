// The token that calls over TCP carry.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// token hands out the token. One in a file is read for every call: a server that starts makes a new one.
type token struct {
	text, file string
	// dataDir is that of a server on this machine, whose token is sent only while a server holds its lock: when that is
	// dead, somebody else may listen on its port.
	dataDir string
}

func newToken(s *settings) (*token, error) {
	if s.token != "" {
		if err := checkToken(s.token, "the token"); err != nil {
			return nil, err
		}
	}
	return &token{text: s.token, file: s.tokenFile, dataDir: s.dataDir}, nil
}

// exists tells whether there is one to send.
func (t *token) exists() bool {
	return t.text != "" || t.file != "" || t.dataDir != ""
}

func (t *token) get() (string, error) {
	if t.text != "" {
		return t.text, nil
	}
	file, code := t.file, codes.Unauthenticated
	if t.dataDir != "" {
		// Its server may be starting.
		file, code = filepath.Join(t.dataDir, "token"), codes.Unavailable
		locked, err := isLocked(filepath.Join(t.dataDir, "LOCK"))
		if err == nil && !locked {
			err = errors.New("it has no running server")
		}
		if err != nil {
			return "", status.Errorf(code, "the token of %s is not sent: %v", t.dataDir, err)
		}
	}
	read, err := os.ReadFile(file)
	if err != nil {
		return "", status.Errorf(code, "the token cannot be read: %v", err)
	}
	text := strings.TrimSpace(string(read))
	if err := checkToken(text, file); err != nil {
		return "", status.Error(code, err.Error())
	}
	return text, nil
}

func checkToken(text, where string) error {
	bad := func(c rune) bool { return c <= ' ' || c > '~' }
	if text == "" || strings.ContainsFunc(text, bad) {
		return fmt.Errorf("contextstore: %s must be visible ASCII without spaces", where)
	}
	return nil
}

// into adds the token to a call. Health is open to everybody, and is asked for before the file may be there.
func (t *token) into(ctx context.Context, method string) (context.Context, error) {
	if strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return ctx, nil
	}
	text, err := t.get()
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+text), nil
}

func (t *token) dialOptions() []grpc.DialOption {
	if !t.exists() {
		return nil
	}
	unary := func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		ctx, err := t.into(ctx, method)
		if err != nil {
			return err
		}
		return invoke(ctx, method, request, reply, conn, options...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		open grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, err := t.into(ctx, method)
		if err != nil {
			return nil, err
		}
		return open(ctx, desc, conn, method, options...)
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)}
}
