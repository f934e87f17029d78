// Random appends, flushes, cancellations, kills of the server and closes of the client: what was reported as saved is in the
// log exactly once, in order, and everything else was reported as not saved.

package contextstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// chaos is an agent that keeps account of its messages.
type chaos struct {
	t      *testing.T
	random *rand.Rand
	server *server
	client *contextstore.Client
	task   *contextstore.Task
	next   int
	// Handed over, and neither saved nor reported; saved, in order; reported as not saved.
	pending []*pb.NewMessage
	saved   []*pb.NewMessage
	unsaved []*pb.NewMessage
	// Those that were never reported at all.
	forgotten int
	killed    int
	kills     sync.WaitGroup
}

// message is the next one, with an id of its own.
func (c *chaos) message() *pb.NewMessage {
	c.next++
	return must(contextstore.NewMessage(user("%d", c.next)))(c.t)
}

// report takes the error of a call that reports what was handed over before it; nil says that all of it is saved.
func (c *chaos) report(err error) {
	var failure *contextstore.Error
	if err != nil && (!errors.As(err, &failure) || len(failure.NotAppended) == 0) {
		// The context has ended, or the call itself has failed: nothing is known of what was handed over.
		return
	}
	isReported := map[string]bool{}
	if failure != nil {
		for _, message := range failure.NotAppended {
			isReported[message.GetRequestId()] = true
		}
	}
	for _, message := range c.pending {
		if isReported[message.GetRequestId()] {
			c.unsaved = append(c.unsaved, message)
			delete(isReported, message.GetRequestId())
		} else {
			c.saved = append(c.saved, message)
		}
	}
	if len(isReported) > 0 {
		c.t.Errorf("%d messages are reported that were not handed over", len(isReported))
	}
	c.pending = nil
}

// reportWith takes the error of a call that appends: the message that it was given is the last that is reported.
func (c *chaos) reportWith(err error, message *pb.NewMessage) {
	left := notAppended(c.t, err)
	last := len(left) - 1
	if left[last].GetRequestId() != message.GetRequestId() {
		c.t.Errorf("%v is not the last that is reported", message)
	}
	if last > 0 {
		c.report(&contextstore.Error{NotAppended: left[:last]})
	}
	c.unsaved = append(c.unsaved, message)
}

// context ends by itself now and then.
func (c *chaos) context() (context.Context, context.CancelFunc) {
	if c.random.IntN(4) == 0 {
		return context.WithTimeout(c.t.Context(), time.Duration(c.random.IntN(3000))*time.Microsecond)
	}
	return context.WithTimeout(c.t.Context(), deadline)
}

func (c *chaos) step() {
	ctx, cancel := c.context()
	defer cancel()
	switch dice := c.random.IntN(100); {
	case dice < 60:
		for range 1 + c.random.IntN(20) {
			message := c.message()
			if err := c.task.AppendLater(ctx, message); err != nil {
				c.reportWith(err, message)
			} else {
				c.pending = append(c.pending, message)
			}
		}
	case dice < 75:
		message := c.message()
		if _, err := c.task.Append(ctx, message); err != nil {
			c.reportWith(err, message)
		} else {
			c.report(nil)
			c.saved = append(c.saved, message)
		}
	case dice < 83:
		c.report(c.task.Flush(ctx))
	case dice < 92:
		c.many(ctx)
	case dice < 96:
		c.kill()
	default:
		c.report(c.client.Close())
		if len(c.pending) > 0 {
			c.forgotten += len(c.pending)
		}
		c.connect()
	}
}

func (c *chaos) many(ctx context.Context) {
	var messages []*pb.NewMessage
	for range 1 + c.random.IntN(50) {
		messages = append(messages, c.message())
	}
	done := 0
	leaves := c.random.IntN(100)
	for _, err := range c.task.AppendMany(ctx, anys(messages)) {
		if err != nil {
			var failure *contextstore.Error
			if errors.As(err, &failure) && failure.Index < 0 {
				c.report(err) // Of what was handed over before.
			} else {
				c.report(nil)
			}
			break
		}
		c.report(nil)
		c.saved = append(c.saved, messages[done])
		if done++; done == leaves {
			break
		}
	}
	c.unsaved = append(c.unsaved, messages[done:]...)
}

// kill has the server killed, and started again a little later.
func (c *chaos) kill() {
	c.kills.Wait()
	pause := time.Duration(c.random.IntN(600)) * time.Millisecond
	c.server.kill()
	c.killed++
	c.kills.Go(func() {
		time.Sleep(pause)
		c.server.start()
	})
}

// connect makes the client of the same agent again.
func (c *chaos) connect() {
	c.kills.Wait()
	c.client = must(contextstore.Connect(c.server.unix, contextstore.WithInstanceID("chaos"),
		contextstore.WithRetryFor(250*time.Millisecond), contextstore.WithCloseTimeout(500*time.Millisecond)))(c.t)
	request := uncompressed()
	if c.task != nil {
		request.TaskUuid = c.task.UUID
	}
	c.task = must(c.client.StartTask(c.t.Context(), request))(c.t)
}

// settle appends again what was reported.
func (c *chaos) settle() {
	c.kills.Wait()
	if err := c.client.WaitUntilReady(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.report(c.task.Flush(c.t.Context()))
	if len(c.pending) > 0 {
		c.t.Fatalf("%d messages are neither saved nor reported", len(c.pending))
	}
	before := c.log()
	once := map[string]int{}
	for _, content := range before {
		once[content]++
	}
	for content, times := range once {
		if times > 1 {
			c.t.Errorf("%s is there %d times", content, times)
		}
	}
	want := contents(c.t, c.saved)
	isSaved := map[string]bool{}
	for _, content := range want {
		isSaved[content] = true
	}
	got := slices.DeleteFunc(before, func(content string) bool { return !isSaved[content] })
	if !slices.Equal(got, want) {
		c.t.Errorf("%d messages were reported as saved, %d of them are in the log, or the order is another", len(want), len(got))
	}
	must(collected(c.task.AppendMany(c.t.Context(), anys(c.unsaved))))(c.t)
	// They count in the order in which they are in the log now.
	byContent := map[string]*pb.NewMessage{}
	for _, message := range append(c.saved, c.unsaved...) {
		byContent[contents(c.t, []*pb.NewMessage{message})[0]] = message
	}
	c.saved, c.unsaved = nil, nil
	for _, content := range c.log() {
		if byContent[content] == nil {
			c.t.Errorf("%s is there twice, or nobody has sent it", content)
			continue
		}
		c.saved = append(c.saved, byContent[content])
		delete(byContent, content)
	}
	if len(byContent) > 0 {
		c.t.Errorf("%d messages are missing", len(byContent))
	}
}

func (c *chaos) log() []string {
	var found []string
	for record, err := range c.task.Messages(c.t.Context(), &pb.StreamMessagesRequest{Kinds: []pb.RecordKind{pb.RecordKind_RECORD_KIND_MESSAGE}}) {
		if err != nil {
			c.t.Fatal(err)
		}
		found = append(found, contentOf(c.t, record.JSON))
	}
	return found
}

// feature: chaos
func TestNothingThatWasHandedOverVanishes(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("CONTEXTSTORE_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	rounds := 3
	if os.Getenv("CONTEXTSTORE_TEST_LONG") == "1" {
		rounds = 100
	}
	c := &chaos{t: t, random: rand.New(rand.NewPCG(seed, 0)), server: startServer(t)}
	c.connect()
	defer func() { c.kills.Wait(); c.client.Close() }()
	var total string
	for round := range rounds {
		// Fewer messages than request ids that the server remembers.
		for begin := c.next; c.next < begin+300; {
			c.step()
		}
		total = fmt.Sprintf("%d saved, %d reported", len(c.saved), len(c.unsaved))
		c.settle()
		if t.Failed() || c.forgotten > 0 {
			t.Fatalf("round %d: %d messages are forgotten; CONTEXTSTORE_SEED=%d repeats it", round, c.forgotten, seed)
		}
	}
	t.Logf("%d messages, %d kills; in the last round %s", c.next, c.killed, total)
}
