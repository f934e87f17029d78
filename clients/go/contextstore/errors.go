// The errors of calls.

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

var (
	// ErrNoServer is what errors.Is finds in an [*Error] if nothing listens at the address of the client.
	ErrNoServer = errors.New("contextstore: there is no server")
	// ErrUnsupportedByServer is what errors.Is finds in an [*Error] if the server is too old for the method.
	ErrUnsupportedByServer = errors.New("contextstore: the server does not have the method")
)

// Field is a field of a request that was refused.
type Field struct {
	// Its path, such as message.json.role.
	Name string
	// What is wrong with it.
	Problem string
}

// Error is what a call failed with. Programs decide by Reason or Code; the words of Message may change.
type Error struct {
	// The gRPC code.
	Code codes.Code
	// Why the server refused the call; empty if the error does not come from the server.
	Reason Reason
	// For people.
	Message string
	// The fields that were refused.
	Fields []Field
	// The data that goes with the reason, such as the holder of a lease.
	Metadata map[string]string
	// After how long a retry helps; 0 if the server did not say.
	RetryAfter time.Duration
	// The messages that are not known to be in the log, in order: those that were handed over before the call that failed, and
	// last what that call was given, if it is one that appends. They have their request ids, so appending them again stores
	// each exactly once.
	NotAppended []*pb.NewMessage
	// Which message of AppendMany could not be appended, from 0: all before it are in the log. -1 for other calls.
	Index int

	// The task of NotAppended.
	task  string
	cause error
	// ErrNoServer, ErrUnsupportedByServer, or nil.
	kind error
	// Whether a retry does not help, whatever the code.
	final bool
}

// newError makes an error that does not come from the server.
func newError(code codes.Code, cause error, format string, values ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, values...), Index: -1, cause: cause}
}

// invalidField makes the error of a field that cannot be sent, as the server makes it of one that was sent.
func invalidField(reason Reason, field string, cause error, format string, values ...any) *Error {
	made := newError(codes.InvalidArgument, cause, format, values...)
	made.Reason, made.Fields = reason, []Field{{field, made.Message}}
	made.Message = field + ": " + made.Message
	return made
}

// Error implements error.
func (e *Error) Error() string {
	what := e.Code.String()
	if e.Reason != "" {
		what = string(e.Reason)
	}
	text := fmt.Sprintf("contextstore: %s: %s", what, e.Message)
	if e.Index >= 0 {
		text += fmt.Sprintf(" (message %d of those that were given)", e.Index)
	}
	if len(e.NotAppended) > 0 {
		text += fmt.Sprintf(" (not appended: %d messages)", len(e.NotAppended))
	}
	return text
}

// Is tells whether target is the reason of this error, an error of the context that ended the call, [ErrNoServer] or
// [ErrUnsupportedByServer].
func (e *Error) Is(target error) bool {
	if e.kind != nil && target == e.kind {
		return true
	}
	if reason, ok := target.(Reason); ok {
		return reason == e.Reason
	}
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// NotAppended returns the messages that an error reports as not appended, by the ids of their tasks: also those of an error of
// [Client.Close] that joins several.
func NotAppended(err error) map[string][]*pb.NewMessage {
	found := map[string][]*pb.NewMessage{}
	var collect func(error)
	collect = func(err error) {
		if failure, ok := err.(*Error); ok && len(failure.NotAppended) > 0 {
			found[failure.task] = append(found[failure.task], failure.NotAppended...)
			return
		}
		switch outer := err.(type) {
		case interface{ Unwrap() error }:
			collect(outer.Unwrap())
		case interface{ Unwrap() []error }:
			for _, inner := range outer.Unwrap() {
				collect(inner)
			}
		}
	}
	collect(err)
	return found
}

// Unwrap gives the error of gRPC, or of the hook.
func (e *Error) Unwrap() error {
	return e.cause
}

// GRPCStatus gives the status of gRPC, for package status.
func (e *Error) GRPCStatus() *status.Status {
	// What a hook said may have a status of its own.
	if found, ok := status.FromError(e.cause); ok && found.Code() == e.Code {
		return found
	}
	return status.New(e.Code, e.Message)
}

// passes tells whether the same call may succeed a moment later: the connection broke, or the server says after how long to
// try again. A task that somebody else works on may take any time, so whether to wait for it is the caller's to decide.
func (e *Error) passes() bool {
	if e.final {
		return false
	}
	return e.Code == codes.Unavailable && e.Reason == "" || e.RetryAfter > 0 && e.Reason != LeaseHeld
}

// asError makes an Error of what gRPC gave.
func asError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return newError(status.FromContextError(err).Code(), err, "%s", err)
	}
	found := status.Convert(err)
	made := newError(found.Code(), err, "%s", found.Message())
	for _, detail := range found.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			made.Reason = Reason(strings.TrimPrefix(detail.GetReason(), "ERROR_REASON_"))
			made.Metadata = detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				made.Fields = append(made.Fields, Field{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			made.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	return made
}

// cutOff is the error of a stream that ended before it said what it had to.
func cutOff(when string) *Error {
	return newError(codes.Internal, nil, "the server closed the stream %s", when)
}
