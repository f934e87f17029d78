// Servers that are killed and connections that are cut: what was asked for happens once, and reads go on.

package contextstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// proxy stands between client and server, and cuts what passes through.
type proxy struct {
	address string

	mu    sync.Mutex
	left  int
	cuts  int
	conns []net.Conn
}

func startProxy(t *testing.T, s *server) *proxy {
	t.Helper()
	dir := must(os.MkdirTemp("", "contextstore-go-"))(t)
	path := filepath.Join(dir, "proxy.sock")
	listener := must(net.Listen("unix", path))(t)
	p := &proxy{address: "unix:" + path, left: -1}
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("unix", strings.TrimPrefix(s.unix, "unix:"))
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, upstream)
			p.mu.Unlock()
			go func() { io.Copy(upstream, client); upstream.Close() }()
			go p.forward(client, upstream)
		}
	}()
	return p
}

// forward hands on what the server says, until it is to be cut: those bytes do not arrive. Only headers and data count (RFC 9113,
// section 6): a ping or a new window may come at any time, and is not the answer that a test wants lost.
func (p *proxy) forward(client, upstream net.Conn) {
	defer client.Close()
	const head, data, headers = 9, 0, 1
	for {
		frame := make([]byte, head)
		if _, err := io.ReadFull(upstream, frame); err != nil {
			return
		}
		length := int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2])
		frame = append(frame, make([]byte, length)...)
		if _, err := io.ReadFull(upstream, frame[head:]); err != nil {
			return
		}
		if kind := frame[3]; (kind == data || kind == headers) && p.isOver(len(frame)) {
			p.cut()
			return
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// isOver counts so many bytes, and tells whether they are more than may pass.
func (p *proxy) isOver(bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 {
		return false
	}
	p.left -= bytes
	return p.left < 0
}

// cutAfter cuts all connections once, after the server has answered so many bytes more.
func (p *proxy) cutAfter(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns, p.left = nil, -1
	p.cuts++
}

func (p *proxy) connect(t *testing.T) *contextstore.Client {
	t.Helper()
	client := must(contextstore.Connect(p.address))(t)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestAnAnswerThatIsLostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t))
	client := p.connect(t)
	task := must(client.StartTask(t.Context(), nil))(t)
	p.cutAfter(0)
	ack := must(task.Append(t.Context(), user("Once.")))(t)
	if p.cuts != 1 || ack.GetSeq() != 1 || !ack.GetDuplicate() {
		t.Errorf("%d cuts: %v", p.cuts, ack)
	}
	if got := view(t, task); len(got) != 1 {
		t.Errorf("%v", got)
	}
	p.cutAfter(0)
	if err := task.Delete(t.Context()); err != nil || p.cuts != 2 {
		t.Errorf("%d cuts: %v", p.cuts, err)
	}
}

func TestManyMessagesAreAppendedOnceAcrossCuts(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t))
	task := must(p.connect(t).StartTask(t.Context(), nil))(t)
	var messages []contextstore.Message
	for n := range 3000 {
		messages = append(messages, user("%d", n))
	}
	seen := uint64(0)
	for ack, err := range task.AppendMany(t.Context(), anys(messages)) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; ack.GetSeq() != seen {
			t.Fatalf("%d is %v", seen, ack)
		}
		if seen%900 == 0 {
			p.cutAfter(200)
		}
	}
	if last := must(task.Get(t.Context()))(t).GetTask().GetLastSeq(); seen != 3000 || last != 3000 || p.cuts < 3 {
		t.Errorf("%d seen, %d there, %d cuts", seen, last, p.cuts)
	}
}

func TestReadsGoOnWhereTheyWereCut(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t))
	task := must(p.connect(t).StartTask(t.Context(), uncompressed()))(t)
	for range 40 {
		must(task.Append(t.Context(), user("%s", strings.Repeat("words ", 4000))))(t)
	}
	whole := must(io.ReadAll(must(task.Current(t.Context(), nil))(t)))(t)
	p.cutAfter(500_000)
	body := must(task.Current(t.Context(), &pb.StreamCurrentRequest{ChunkBytes: 10_000}))(t)
	again := must(io.ReadAll(body))(t)
	if p.cuts != 1 || string(again) != string(whole) {
		t.Errorf("%d cuts, %d of %d bytes", p.cuts, len(again), len(whole))
	}
	p.cutAfter(500_000)
	history := must(collected(task.Messages(t.Context(), nil)))(t)
	count := 0
	for _, record := range history {
		if record.Kind == "message" {
			if count++; record.Seq != uint64(count) {
				t.Fatalf("%d is %d", count, record.Seq)
			}
		}
	}
	if p.cuts != 2 || count != 40 {
		t.Errorf("%d cuts, %d messages", p.cuts, count)
	}

	// A body for a provider has no place to go on from.
	p.cutAfter(500_000)
	request := must(task.Request(t.Context(), &pb.RenderContextRequest{Provider: pb.Provider_PROVIDER_OPENAI, Model: "m"}))(t)
	var failure *contextstore.Error
	if _, err := io.ReadAll(request); !errors.As(err, &failure) || failure.Code != codes.Unavailable {
		t.Errorf("%v", err)
	}
}

func TestAServerThatWasKilledIsWaitedFor(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), nil))(t)
		must(task.Append(t.Context(), user("Before.")))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := make(chan *pb.WatchTaskResponse, 10)
		watching := make(chan error, 1)
		go func() {
			for event, err := range task.Watch(ctx, "v1.0.0.0") {
				if err != nil {
					watching <- err
					return
				}
				events <- event
			}
		}()
		for event := range events {
			if event.GetMessageAppended().GetSeq() == 1 {
				break
			}
		}
		s.kill()
		appended := make(chan error, 1)
		go func() {
			_, err := task.Append(t.Context(), user("After."))
			appended <- err
		}()
		s.start()
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case event := <-events:
				if event.GetMessageAppended().GetSeq() == 2 {
					return
				}
			case err := <-watching:
				t.Fatal(err)
			case <-time.After(deadline):
				t.Fatal("nothing is told")
			}
		}
	})
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.connect("unix", contextstore.WithRetryFor(200*time.Millisecond))
	task := must(client.StartTask(t.Context(), nil))(t)
	s.kill()
	var failure *contextstore.Error
	if _, err := task.Append(t.Context(), user("Nobody.")); !errors.As(err, &failure) || failure.Code != codes.Unavailable {
		t.Errorf("%v", err)
	}
}
