// Messages that are appended without waiting: each is in the log once, or it is reported.

package contextstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// helpers are programs of their own for tests: this test binary is started again with the name of one.
var helpers = map[string]func(){}

const helperVariable = "GO_TEST_HELPER"

func TestMain(m *testing.M) {
	if helper := helpers[os.Getenv(helperVariable)]; helper != nil {
		helper()
		return
	}
	os.Exit(m.Run())
}

// helperCommand is a helper as a command, with its variables.
func helperCommand(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(must(os.Executable())(t))
	command.Env = append(append(os.Environ(), helperVariable+"="+name), env...)
	command.Stderr = os.Stderr
	return command
}

// count is the texts of so many numbered messages.
func count(n int) []string {
	var texts []string
	for n := range n {
		texts = append(texts, fmt.Sprint(n))
	}
	return texts
}

// handOver hands over numbered messages.
func handOver(t *testing.T, task *contextstore.Task, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := task.AppendLater(t.Context(), user("%d", n)); err != nil {
			t.Fatal(err)
		}
	}
}

// notAppended is what an error reports, which it must.
func notAppended(t *testing.T, err error) []*pb.NewMessage {
	t.Helper()
	var failure *contextstore.Error
	if !errors.As(err, &failure) || len(failure.NotAppended) == 0 {
		t.Fatalf("it reports no messages: %v", err)
	}
	return failure.NotAppended
}

// feature: append-later
func TestWhatWasHandedOverComesBeforeTheNextCall(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), nil))(t)
		handOver(t, task, 0, 300)
		ack := must(task.Append(t.Context(), user("300")))(t)
		if got := view(t, task); ack.GetSeq() != 301 || !slices.Equal(got, count(301)) {
			t.Errorf("%d messages", len(got))
		}
		handOver(t, task, 301, 400)
		if err := task.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		handOver(t, task, 400, 500)
		if got := view(t, task); !slices.Equal(got, count(500)) {
			t.Errorf("%d messages", len(got))
		}
		handOver(t, task, 500, 600)
		must(task.Complete(t.Context(), "Done."))(t)
		if got := view(t, task); !slices.Equal(got, count(600)) {
			t.Errorf("%d messages", len(got))
		}
		// What cannot be encoded is not handed over.
		if err := task.AppendLater(t.Context(), make(chan int)); err == nil {
			t.Error("a channel passes for a message")
		}
	})
}

// feature: append-later-survives-cancel
func TestACallThatIsCancelledLosesNothing(t *testing.T) {
	t.Parallel()
	task := must(startServer(t).connect("unix").StartTask(t.Context(), nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 300 {
		if err := task.AppendLater(ctx, user("%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := task.Append(ctx, user("never")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := task.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	handOver(t, task, 300, 302)
	if err := task.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if got := view(t, task); !slices.Equal(got, count(302)) {
		t.Errorf("%d messages", len(got))
	}
}

// feature: append-later-survives-close
func TestCloseWaitsForWhatWasHandedOver(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *server, client *contextstore.Client) {
		var tasks []*contextstore.Task
		for range 5 {
			task := must(client.StartTask(t.Context(), nil))(t)
			handOver(t, task, 0, 400)
			tasks = append(tasks, task)
		}
		if err := errors.Join(tasks[0].Close(), client.Close(), client.Close()); err != nil {
			t.Error(err)
		}
		if err := tasks[0].AppendLater(t.Context(), user("never")); err == nil {
			t.Error("a closed client takes messages")
		}
		other := s.connect("unix")
		for _, task := range tasks {
			if got := view(t, other.Task(task.UUID)); !slices.Equal(got, count(400)) {
				t.Errorf("%d messages", len(got))
			}
		}
	})
}

func TestCloseReportsWhatItCouldNotSave(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.connect("unix", contextstore.WithCloseTimeout(300*time.Millisecond))
	task := must(client.StartTask(t.Context(), nil))(t)
	handOver(t, task, 0, 100)
	if err := task.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := must(client.StartTask(t.Context(), nil))(t)
	s.kill()
	handOver(t, task, 100, 200)
	handOver(t, other, 0, 10)
	reported := contextstore.NotAppended(fmt.Errorf("outer: %w", client.Close()))
	left := reported[task.UUID]
	if len(left) != 100 || len(reported[other.UUID]) != 10 || len(reported) != 2 {
		t.Errorf("%d are reported of the first of %d tasks", len(left), len(reported))
	}
	s.start()
	again := must(s.connect("unix").StartTask(t.Context(), nil))(t)
	must(collected(again.AppendMany(t.Context(), anys(left))))(t)
	if got := view(t, again); !slices.Equal(got, count(200)[100:]) {
		t.Errorf("%v", got)
	}
}

func init() {
	helpers["exit"] = func() {
		client, err := contextstore.Connect(os.Getenv("ADDRESS"))
		if err != nil {
			panic(err)
		}
		defer client.Close()
		task, err := client.StartTask(context.Background(), &pb.StartTaskRequest{TaskUuid: os.Getenv("TASK")})
		if err != nil {
			panic(err)
		}
		for n := range 400 {
			if err := task.AppendLater(context.Background(), user("%d", n)); err != nil {
				panic(err)
			}
		}
	}
}

// feature: append-later-at-exit
func TestAProgramThatEndsAndClosesItsClientLosesNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	uuid := contextstore.NewTaskUUID()
	if err := helperCommand(t, "exit", "ADDRESS="+s.unix, "TASK="+uuid).Run(); err != nil {
		t.Fatal(err)
	}
	if got := view(t, s.connect("unix").Task(uuid)); !slices.Equal(got, count(400)) {
		t.Errorf("%d messages", len(got))
	}
}

// feature: concurrent-use
func TestManyGoroutinesUseOneTask(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), uncompressed()))(t)
		const workers, rounds = 8, 40
		var done sync.WaitGroup
		for worker := range workers {
			done.Go(func() {
				for round := range rounds {
					err := task.AppendLater(t.Context(), user("%d %d later", worker, round))
					if err == nil && round%3 == 0 {
						err = task.Flush(t.Context())
					}
					if err == nil && round%5 == 0 {
						_, err = task.Append(t.Context(), user("%d %d now", worker, round))
					}
					if err == nil && round%10 == 0 {
						call := contextstore.ToolCall{Name: "look"}
						_, err = task.Tool(t.Context(), call, func(context.Context) (any, error) { return round, nil })
					}
					if err != nil {
						t.Errorf("%d %d: %v", worker, round, err)
					}
				}
			})
		}
		done.Wait()
		got := view(t, task)
		for worker := range workers {
			var mine, want []string
			for _, text := range got {
				if strings.HasPrefix(text, fmt.Sprintf("%d ", worker)) {
					mine = append(mine, text)
				}
			}
			for round := range rounds {
				want = append(want, fmt.Sprintf("%d %d later", worker, round))
				if round%5 == 0 {
					want = append(want, fmt.Sprintf("%d %d now", worker, round))
				}
			}
			if !slices.Equal(mine, want) {
				t.Errorf("%d: %v", worker, mine)
			}
		}
	})
}

// feature: resend-not-appended
func TestWhatIsReportedCanBeAppendedAgainOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startProxy(t, s)
	client := must(contextstore.Connect(p.address, contextstore.WithRetryFor(0)))(t)
	defer client.Close()
	task := must(client.StartTask(t.Context(), nil))(t)
	// The server has stored some whose acknowledgement does not arrive.
	p.cutAfter(300)
	var reported []*pb.NewMessage
	for n := range 400 {
		var options []contextstore.CallOption
		if n%7 == 0 {
			options = append(options, contextstore.Pinned(), contextstore.OutputRef("out-1"))
		}
		message := must(contextstore.NewMessage(user("%d", n), options...))(t)
		if err := task.AppendLater(t.Context(), message); err != nil {
			reported = append(reported, notAppended(t, err)...)
		}
	}
	if err := task.Flush(t.Context()); err != nil {
		reported = append(reported, notAppended(t, err)...)
	}
	stored := must(task.Get(t.Context()))(t).GetTask().GetLastSeq()
	if p.cuts != 1 || len(reported) == 0 || int(stored)+len(reported) <= 400 {
		t.Fatalf("%d cuts, %d are reported, %d are stored", p.cuts, len(reported), stored)
	}
	must(collected(task.AppendMany(t.Context(), anys(reported))))(t)
	// In any way, and as often as one likes.
	must(task.Append(t.Context(), reported[0]))(t)
	if err := errors.Join(task.AppendLater(t.Context(), reported[1]), task.Flush(t.Context())); err != nil {
		t.Error(err)
	}
	got := view(t, task)
	slices.Sort(got)
	want := count(400)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d messages", len(got))
	}
	for seq := range uint64(400) {
		stored := must(task.Message(t.Context(), seq+1))(t)
		isSpecial := strings.Contains(string(stored.GetRecord()), `"output_ref":"out-1"`)
		if stored.GetPinned() != isSpecial {
			t.Errorf("%v", stored)
		}
	}
}

func TestARefusedMessageEndsWhatWasHandedOverBehindIt(t *testing.T) {
	t.Parallel()
	task := must(startServer(t).connect("unix").StartTask(t.Context(), nil))(t)
	for _, message := range []any{user("good"), `{"role":"nobody"}`, user("later")} {
		if err := task.AppendLater(t.Context(), message); err != nil {
			t.Fatal(err)
		}
	}
	_, err := task.Append(t.Context(), user("not sent"))
	isReason(t, err, contextstore.InvalidField)
	left := notAppended(t, err)
	if len(left) != 3 || left[0].GetJson() != `{"role":"nobody"}` {
		t.Fatalf("%v", left)
	}
	must(task.Append(t.Context(), left[1]))(t)
	must(task.Append(t.Context(), left[2]))(t)
	if got := view(t, task); !slices.Equal(got, []string{"good", "later", "not sent"}) {
		t.Errorf("%v", got)
	}
}

func TestWhatAFailingCallWasGivenIsReportedLast(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.connect("unix", contextstore.WithRetryFor(0))
	task := must(client.StartTask(t.Context(), uncompressed()))(t)
	// What is reported ends with the message itself, and appending it again stores it once.
	next := 0
	isReported := func(err error, reported int) {
		t.Helper()
		if err := client.WaitUntilReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := notAppended(t, err)
		got := contents(t, left)
		if want := count(next)[next-reported:]; !slices.Equal(got, want) || len(contextstore.NotAppended(err)[task.UUID]) != reported {
			t.Fatalf("%v instead of %v: %v", got, want, err)
		}
		for range 2 {
			must(collected(task.AppendMany(t.Context(), anys(left))))(t)
		}
	}
	message := func() any {
		next++
		return user("%d", next-1)
	}
	s.kill()
	_, err := task.Append(t.Context(), message())
	s.start()
	isReported(err, 1)
	s.kill()
	handed := 0
	for err = nil; err == nil; handed++ {
		err = task.AppendLater(t.Context(), message())
	}
	s.start()
	isReported(err, handed)
	s.kill()
	if err := task.AppendLater(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	_, err = task.Append(t.Context(), message())
	s.start()
	isReported(err, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = task.Append(ended, message())
	isReported(err, 1)
	if got := view(t, task); !slices.Equal(got, count(next)) {
		t.Errorf("%v", got)
	}
	client.Close()
	left := notAppended(t, task.AppendLater(t.Context(), message()))
	if got := contents(t, left); !slices.Equal(got, count(next)[next-1:]) {
		t.Errorf("%v", got)
	}
}

func TestOnlySoManyAreHandedOverWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.connect("unix", contextstore.WithRetryFor(deadline))
	task := must(client.StartTask(t.Context(), uncompressed()))(t)
	s.kill()
	handOver(t, task, 0, 512)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := task.AppendLater(ctx, user("too many")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	s.start()
	handOver(t, task, 512, 700)
	if got := view(t, task); !slices.Equal(got, count(700)) {
		t.Errorf("%d messages", len(got))
	}
}

// feature: append-many-source-fails
func TestWhatCameBeforeASourceFailedIsAppended(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), uncompressed()))(t)
		for at, last := range []any{errBroken, make(chan int), map[string]any{"role": "user", "content": func() {}}} {
			from := at * 300
			source := func(yield func(any) bool) {
				for n := range 300 {
					if !yield(user("%d", from+n)) {
						return
					}
				}
				if yield(last) {
					t.Error("it is asked for more")
				}
			}
			acks, err := collected(task.AppendMany(t.Context(), source))
			var failure *contextstore.Error
			if len(acks) != 300 || !errors.As(err, &failure) || failure.Index != 300 || errors.Is(err, errBroken) != (at == 0) {
				t.Errorf("%d: %v", len(acks), err)
			}
		}
		// A panic is that of the loop.
		func() {
			defer func() {
				if got := recover(); got != errBroken {
					t.Errorf("%v", got)
				}
			}()
			source := func(yield func(any) bool) {
				yield(user("900"))
				panic(errBroken)
			}
			must(collected(task.AppendMany(t.Context(), source)))(t)
		}()
		if got := view(t, task); !slices.Equal(got, count(901)) {
			t.Errorf("%d messages", len(got))
		}
	})
}

// It runs beside no other test, as it counts goroutines.
func TestTasksThatAreForgottenLeaveNothingBehind(t *testing.T) {
	s := startServer(t)
	before := runtime.NumGoroutine()
	client := must(contextstore.Connect(s.unix))(t)
	var uuids []string
	for range 100 {
		task := must(client.StartTask(t.Context(), uncompressed()))(t)
		handOver(t, task, 0, 1)
		uuids = append(uuids, task.UUID)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	client = s.connect("unix")
	for _, uuid := range uuids {
		if last := must(client.Task(uuid).Get(t.Context()))(t).GetTask().GetLastSeq(); last != 1 {
			t.Errorf("%d messages are stored", last)
		}
	}
}
