// The token that calls over TCP carry.

package contextstore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// token hands out the token. One in a file is read for every call: a server that starts makes a new one.
type token struct {
	text, file string
	// dataDir is that of a server on this machine, whose token is sent only while a server holds its lock, and only to an
	// address where that server listens: somebody else may listen on the port of one that is dead.
	dataDir string
	address address
}

func newToken(s *settings, where address) (*token, error) {
	text := withoutNewline(s.token)
	if s.token != "" {
		if err := checkToken(text, "the token"); err != nil {
			return nil, err
		}
	}
	return &token{text: text, file: s.tokenFile, dataDir: s.dataDir, address: where}, nil
}

// withoutNewline removes the one line end that an editor, or a secret of an orchestrator, has put behind a token.
func withoutNewline(text string) string {
	if line, ok := strings.CutSuffix(text, "\n"); ok {
		return strings.TrimSuffix(line, "\r")
	}
	return text
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
		file, code = inside(t.dataDir, "token"), codes.Unavailable
		if err := t.isForHolder(); err != nil {
			return "", err
		}
	}
	read, err := os.ReadFile(file)
	if err != nil {
		return "", newError(code, err, "the token cannot be read: %v", err)
	}
	text := withoutNewline(string(read))
	if err := checkToken(text, file); err != nil {
		return "", newError(code, err, "%v", err)
	}
	return text, nil
}

// isForHolder checks that the server of the data directory runs, and that it is the one at the address.
func (t *token) isForHolder() error {
	locked, err := isLocked(inside(t.dataDir, "LOCK"))
	if err != nil {
		return newError(codes.Unavailable, err, "the token of %s is not sent: %v", t.dataDir, err)
	}
	var failure *Error
	if !locked {
		failure = newError(codes.Unavailable, nil,
			"the token of %s is not sent: it has no running server; `contextstore serve --data-dir %s` starts one", t.dataDir, t.dataDir)
	} else if listed := writtenAddresses(t.dataDir); len(listed) == 0 {
		return newError(codes.Unavailable, nil,
			"the token of %s is not sent: its server has not said yet where it listens; it may be starting or stopping", t.dataDir)
	} else if !slices.ContainsFunc(listed, t.address.isSame) {
		failure = newError(codes.Unavailable, nil,
			"the token of %s is not sent to %s: its server listens at %s", t.dataDir, t.address.text, strings.Join(listed, " and "))
	}
	if failure == nil {
		return nil
	}
	failure.kind = ErrNoServer
	return failure
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
