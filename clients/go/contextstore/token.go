// The token that calls over TCP carry.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// token hands out the token; one in a file is read when it is first asked for, and again after it was refused.
type token struct {
	file string

	mu   sync.Mutex
	text string
}

func newToken(text, file string) (*token, error) {
	if text != "" && file != "" {
		return nil, errors.New("contextstore: a token and a token file cannot stand beside each other")
	}
	if text != "" {
		if err := checkToken(text, "the token"); err != nil {
			return nil, err
		}
	}
	return &token{text: text, file: file}, nil
}

// exists tells whether there is one to send.
func (t *token) exists() bool {
	return t.file != "" || t.text != ""
}

func (t *token) get() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text == "" {
		read, err := os.ReadFile(t.file)
		if err != nil {
			return "", status.Errorf(codes.Unauthenticated, "the token cannot be read: %v", err)
		}
		text := strings.TrimSpace(string(read))
		if err := checkToken(text, t.file); err != nil {
			return "", status.Error(codes.Unauthenticated, err.Error())
		}
		t.text = text
	}
	return t.text, nil
}

// refused forgets a token, if another may be in the file by now.
func (t *token) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != "" {
		t.text = ""
	}
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
