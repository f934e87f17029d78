// Storing an output of a tool: from the beginning again when the connection breaks, and never in part.

package contextstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

const (
	// An output up to this size goes in one request.
	wholeBytes = 1 << 20
	// The pieces of a larger one.
	pieceBytes = 256 << 10
	// The server may take nothing of a larger one, or store it, for so long.
	storing = 5 * time.Minute
)

// Put stores an output of any size, and answers when it is on disk: with a ref to read it by, and with the view that the model
// is to be shown. With Append of the header, the tool message is appended too, and with Record the tool call is recorded.
//
// The output ends where content gives io.EOF. Any other error of it, also io.ErrUnexpectedEOF, is returned as it is, and nothing
// is stored. Content may take any time; the server must take what it gives, and store it, within five minutes, or within the
// usual timeout if it is at most 1 MiB, unless the context has a deadline.
//
// It is repeated from the beginning if the connection breaks, under the same request id: if the content is at most 1 MiB, or
// can seek.
func (o Outputs) Put(
	ctx context.Context, header *pb.PutToolOutputHeader, content io.Reader,
) (*pb.PutToolOutputResponse, error) {
	t := o.task
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	header = cloned(header)
	header.TaskUuid, header.LeaseGeneration = t.UUID, t.lease.current()
	fill(&header.RequestId, newID)
	begin := make([]byte, wholeBytes+1)
	source := seekable(content)
	n, err := readUpTo(content, begin)
	u := upload{client: t.client, header: header, timeout: t.client.timeout}
	switch {
	case err == io.EOF:
		header.Content = begin[:n]
		source = nil
	case err != nil:
		return nil, err
	default:
		u.rest, u.timeout = io.MultiReader(bytes.NewReader(begin), content), max(u.timeout, storing)
	}
	if err := t.client.prepare(ctx, header); err != nil {
		return nil, err
	}
	patience := patience{lasts: t.client.retryFor}
	for {
		answer, err := u.attempt(ctx)
		if err == nil {
			t.client.reached.Store(true)
			t.lease.touch()
			return answer, nil
		}
		var ours ownError
		if errors.As(err, &ours) {
			return nil, ours.error
		}
		failure := t.client.failed(ctx, "PutToolOutput", err)
		if u.rest != nil && source == nil {
			return nil, failure
		}
		if failure = patience.pauseAfter(ctx, failure); failure != nil {
			return nil, failure
		}
		if source != nil {
			if err := source.rewind(); err != nil {
				return nil, err
			}
			u.rest = content
		}
	}
}

// ownError is one of the caller's reader.
type ownError struct{ error }

// place is where a reader stood before it was read.
type place struct {
	io.Seeker
	start int64
}

// seekable is the place of a reader that can be read again from there; nil if it cannot.
func seekable(content io.Reader) *place {
	seeker, ok := content.(io.Seeker)
	if !ok {
		return nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	return &place{seeker, start}
}

func (p *place) rewind() error {
	_, err := p.Seek(p.start, io.SeekStart)
	return err
}

// readUpTo fills a buffer. It answers io.EOF only if the reader has said so itself: io.ReadFull cannot be told from a reader
// that has broken off with io.ErrUnexpectedEOF.
func readUpTo(from io.Reader, into []byte) (int, error) {
	n, empty := 0, 0
	for n < len(into) {
		more, err := from.Read(into[n:])
		n += more
		if err != nil {
			return n, err
		}
		if empty++; more > 0 {
			empty = 0
		} else if empty == 100 {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// upload is one output on its way.
type upload struct {
	client *Client
	header *pb.PutToolOutputHeader
	// What is not in the header; nil if all is.
	rest io.Reader
	// How long the server may take nothing; 0: any time.
	timeout time.Duration
}

var errTakesNothing = errors.New("the server took nothing in time")

// attempt sends the output once.
func (u *upload) attempt(ctx context.Context) (*pb.PutToolOutputResponse, error) {
	// Ends the call if it is not sent to its end, and then nothing is kept of it.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answer, err := u.send(ctx, func() { cancel(errTakesNothing) })
	if err != nil && context.Cause(ctx) == errTakesNothing {
		return nil, newError(codes.DeadlineExceeded, errTakesNothing, "the server took nothing for %v", u.timeout)
	}
	return answer, err
}

func (u *upload) send(ctx context.Context, late func()) (*pb.PutToolOutputResponse, error) {
	// Runs while the server has to do something; not while content is waited for.
	watch := func() func() bool { return func() bool { return true } }
	if _, ok := ctx.Deadline(); !ok && u.timeout > 0 {
		watch = func() func() bool { return time.AfterFunc(u.timeout, late).Stop }
	}
	stream, err := u.client.OutputsStub.PutToolOutput(ctx)
	if err != nil {
		return nil, err
	}
	stop := watch()
	err = stream.Send(&pb.PutToolOutputRequest{Part: &pb.PutToolOutputRequest_Header{Header: u.header}})
	stop()
	for u.rest != nil && err == nil {
		// gRPC may hold on to what was sent.
		piece := make([]byte, pieceBytes)
		n, bad := readUpTo(u.rest, piece)
		if bad != nil && bad != io.EOF {
			return nil, ownError{bad}
		}
		if n > 0 {
			stop := watch()
			err = stream.Send(&pb.PutToolOutputRequest{Part: &pb.PutToolOutputRequest_Data{Data: piece[:n]}})
			stop()
		}
		if bad == io.EOF {
			break
		}
	}
	stop = watch()
	defer stop()
	// If sending failed, this tells why.
	return stream.CloseAndRecv()
}
