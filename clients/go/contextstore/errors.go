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
)

// Field is a field of a request that was refused.
type Field struct {
	// Its path, such as message_json.role.
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

	cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("contextstore: %s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("contextstore: %s: %s", e.Code, e.Message)
}

// Is tells whether target is the reason of this error, or an error of the context that ended the call.
func (e *Error) Is(target error) bool {
	if reason, ok := target.(Reason); ok {
		return reason == e.Reason
	}
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
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
	return e.Code == codes.Unavailable && e.Reason == "" || e.RetryAfter > 0 && e.Reason != LeaseHeld
}

// asError makes an Error of what gRPC gave.
func asError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: status.FromContextError(err).Code(), Message: err.Error(), cause: err}
	}
	found := status.Convert(err)
	made := &Error{Code: found.Code(), Message: found.Message(), cause: err}
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
	return &Error{Code: codes.Internal, Message: "the server closed the stream " + when}
}
