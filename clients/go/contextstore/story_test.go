// What an agent does with a task, over both transports.

package contextstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

func user(format string, values ...any) contextstore.Message {
	return contextstore.Message{Role: "user", Content: fmt.Sprintf(format, values...)}
}

// uncompressed is a task whose view is only ever rewritten when that is asked for.
func uncompressed() *pb.StartTaskRequest {
	return &pb.StartTaskRequest{Config: &pb.TaskConfig{Compression: &pb.CompressionConfig{Auto: proto.Bool(false)}}}
}

// collected is everything a sequence gives.
func collected[T any](items iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for item, err := range items {
		if err != nil {
			return all, err
		}
		all = append(all, item)
	}
	return all, nil
}

func anys[T any](items []T) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, item := range items {
			if !yield(item) {
				return
			}
		}
	}
}

// contents of what the model sees.
func view(t *testing.T, task *contextstore.Task) []string {
	t.Helper()
	var found []string
	for line, err := range task.CurrentMessages(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, contentOf(t, line))
	}
	return found
}

// contentOf a message in its JSON.
func contentOf(t *testing.T, line []byte) string {
	t.Helper()
	var message contextstore.Message
	if err := json.Unmarshal(line, &message); err != nil {
		t.Fatal(err)
	}
	return message.Content
}

func contents(t *testing.T, messages []*pb.NewMessage) []string {
	t.Helper()
	var found []string
	for _, message := range messages {
		found = append(found, contentOf(t, []byte(message.GetJson())))
	}
	return found
}

func isReason(t *testing.T, err error, reason contextstore.Reason) {
	t.Helper()
	if !errors.Is(err, reason) {
		t.Errorf("it is %v, not %s", err, reason)
	}
}

// feature: append
// feature: fork
// feature: pins
func TestTheLifeOfATask(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *server, client *contextstore.Client) {
		ctx := t.Context()
		if err := client.WaitUntilReady(ctx); err != nil {
			t.Fatal(err)
		}
		info := must(client.ServerInfo(ctx))(t)
		if info.GetVersion() == "" || info.GetDataDir() != s.dataDir {
			t.Errorf("%v", info)
		}
		task := must(client.StartTask(ctx, &pb.StartTaskRequest{User: "ada", SystemMessage: "You fix bugs."}))(t)
		if !task.Created || task.LeaseGeneration() < 1 {
			t.Errorf("%v %d", task.Created, task.LeaseGeneration())
		}
		ack := must(task.Append(ctx, user("Fix it."), contextstore.Pinned(), contextstore.RequestID("r-1")))(t)
		again := must(task.Append(ctx, user("Fix it."), contextstore.Pinned(), contextstore.RequestID("r-1")))(t)
		if ack.GetSeq() != 2 || again.GetSeq() != 2 || ack.GetDuplicate() || !again.GetDuplicate() {
			t.Errorf("%v %v", ack, again)
		}
		_, err := task.Append(ctx, user("Something else."), contextstore.RequestID("r-1"))
		isReason(t, err, contextstore.RequestIDReused)
		_, err = task.Append(ctx, `{"role": "nobody", "content": ""}`)
		var failure *contextstore.Error
		if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument || failure.Fields[0].Name != "message.json.role" {
			t.Errorf("%v", err)
		}
		if got := view(t, task); !slices.Equal(got, []string{"You fix bugs.", "Fix it."}) {
			t.Errorf("%v", got)
		}
		if one := must(task.Message(ctx, 2))(t); !one.GetPinned() {
			t.Error("it is not pinned")
		}
		if err := errors.Join(task.Unpin(ctx, 2), task.Pin(ctx, 1), task.Unpin(ctx, 1)); err != nil {
			t.Error(err)
		}
		must(task.Update(ctx, &pb.TaskConfig{Model: "gpt-5"}))(t)
		if now := must(task.Get(ctx))(t); now.GetTask().GetConfig().GetModel() != "gpt-5" || now.GetTask().GetUser() != "ada" {
			t.Errorf("%v", now)
		}
		if lives := must(task.RenewLease(ctx))(t); lives != 30*time.Second {
			t.Errorf("%v", lives)
		}
		if paused := must(task.Pause(ctx))(t); paused.GetStatus() != pb.TaskStatus_TASK_STATUS_PAUSED || task.LeaseGeneration() != 0 {
			t.Errorf("%v", paused)
		}
		_, err = task.Append(ctx, user("Anybody there?"))
		isReason(t, err, contextstore.WrongStatus)
		if resumed := must(task.Resume(ctx))(t); resumed.GetStatus() != pb.TaskStatus_TASK_STATUS_RUNNING || task.LeaseGeneration() < 2 {
			t.Errorf("%v", resumed)
		}
		fork := must(task.Fork(ctx, &pb.ForkTaskRequest{AtSeq: 1}))(t)
		if got := view(t, fork); !slices.Equal(got, []string{"You fix bugs."}) {
			t.Errorf("%v", got)
		}
		if failed := must(fork.Fail(ctx, "no time", ""))(t); failed.GetErrorMessage() != "no time" {
			t.Errorf("%v", failed)
		}
		if err := fork.Delete(ctx); err != nil {
			t.Error(err)
		}
		isReason(t, fork.Delete(ctx), contextstore.TaskNotFound)
		if done := must(task.Complete(ctx, "Fixed it."))(t); done.GetStatus() != pb.TaskStatus_TASK_STATUS_COMPLETED {
			t.Errorf("%v", done)
		}
		eventually(t, "the catalog knows it", func() bool {
			request := &pb.ListTasksRequest{Filter: &pb.TaskFilter{Statuses: []pb.TaskStatus{pb.TaskStatus_TASK_STATUS_COMPLETED}}}
			listed, err := collected(client.ListTasks(ctx, request))
			return err == nil && len(listed) == 1 && listed[0].GetUuid() == task.UUID
		})
	})
}

func TestOneClientAtATimeWorksOnATask(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first := s.connect("unix", contextstore.WithInstanceID("agent-1"))
	task := must(first.StartTask(t.Context(), nil))(t)
	other := s.connect("tcp")
	_, err := other.StartTask(t.Context(), &pb.StartTaskRequest{TaskUuid: task.UUID})
	isReason(t, err, contextstore.LeaseHeld)
	_, err = other.Task(task.UUID).Append(t.Context(), user("Me too."))
	isReason(t, err, contextstore.LeaseHeld)

	restarted := s.connect("unix", contextstore.WithInstanceID("agent-1"))
	taken := must(restarted.StartTask(t.Context(), &pb.StartTaskRequest{TaskUuid: task.UUID}))(t)
	if taken.Created || taken.LeaseGeneration() < 2 {
		t.Errorf("%v %d", taken.Created, taken.LeaseGeneration())
	}
	_, err = task.Append(t.Context(), user("Still here."))
	isReason(t, err, contextstore.StaleLease)
}

// feature: leases-renewed
func TestALeaseIsKeptAlive(t *testing.T) {
	t.Parallel()
	// A machine that is too busy for a renewal within two seconds would lose it.
	const lives = 3 * time.Second
	s := startServer(t, "CONTEXTSTORE_LEASE__TTL="+lives.String())
	task := must(s.connect("unix").StartTask(t.Context(), nil))(t)
	other := s.connect("unix")
	take := func() error {
		_, err := other.StartTask(t.Context(), &pb.StartTaskRequest{TaskUuid: task.UUID})
		return err
	}
	outlived := time.Now().Add(lives + 500*time.Millisecond)
	eventually(t, "the lease is older than it may become", func() bool {
		isReason(t, take(), contextstore.LeaseHeld)
		return time.Now().After(outlived)
	})
	task.Close()
	eventually(t, "the lease ends when nobody renews it", func() bool { return take() == nil })
}

// feature: lease-lost
func TestALeaseThatIsLostIsReported(t *testing.T) {
	t.Parallel()
	s := startServer(t, "CONTEXTSTORE_LEASE__TTL=1s")
	task := must(s.connect("unix", contextstore.WithInstanceID("agent-1")).StartTask(t.Context(), nil))(t)
	paused := must(s.connect("unix").StartTask(t.Context(), nil))(t)
	must(paused.Pause(t.Context()))(t)
	taken := must(s.connect("unix", contextstore.WithInstanceID("agent-1")).StartTask(t.Context(), &pb.StartTaskRequest{TaskUuid: task.UUID}))(t)
	eventually(t, "it is lost", func() bool { return task.LeaseLost() != nil })
	isReason(t, task.LeaseLost(), contextstore.StaleLease)
	_, err := task.Append(t.Context(), user("Still here."))
	isReason(t, err, contextstore.StaleLease)
	if taken.LeaseLost() != nil || paused.LeaseLost() != nil {
		t.Errorf("%v %v", taken.LeaseLost(), paused.LeaseLost())
	}
}

// feature: append-many
// feature: stream-current
// feature: stream-history
func TestManyMessagesAndTheHistory(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx := t.Context()
		task := must(client.StartTask(ctx, uncompressed()))(t)
		var messages []contextstore.Message
		for n := range 2000 {
			messages = append(messages, user("Message %d. %s", n+1, strings.Repeat("x", n)))
		}
		acks := must(collected(task.AppendMany(ctx, anys(messages))))(t)
		for at, ack := range acks {
			if ack.GetSeq() != uint64(at+1) {
				t.Fatalf("%d is %v", at, ack)
			}
		}
		if len(acks) != len(messages) {
			t.Fatalf("%d of %d", len(acks), len(messages))
		}
		// Chunks that end within lines.
		body := must(task.Current(ctx, &pb.StreamCurrentRequest{ChunkBytes: 1000}))(t)
		whole := must(io.ReadAll(body))(t)
		if got := strings.Count(string(whole), "\n"); got != 2000 || body.Close() != nil {
			t.Errorf("%d lines", got)
		}
		early := must(task.Current(ctx, &pb.StreamCurrentRequest{AsOfSeq: 1}))(t)
		if got := string(must(io.ReadAll(early))(t)); !strings.HasPrefix(string(whole), got) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q", got)
		}
		request := &pb.StreamMessagesRequest{FromSeq: 10, Limit: 5, Kinds: []pb.RecordKind{pb.RecordKind_RECORD_KIND_MESSAGE}}
		history := must(collected(task.Messages(ctx, request)))(t)
		if len(history) != 5 || history[0].Seq != 10 || history[4].Seq != 14 || history[0].Kind != "message" {
			t.Errorf("%v", history)
		}

		// One that is refused ends it; what came before is appended.
		bad := []any{user("good"), `{"role":"nobody"}`, user("never")}
		acks, err := collected(task.AppendMany(ctx, slices.Values(bad)))
		isReason(t, err, contextstore.InvalidField)
		if len(acks) != 1 || acks[0].GetSeq() != 2001 {
			t.Errorf("%v", acks)
		}
		acks, err = collected(task.AppendMany(ctx, slices.Values([]any{user("good"), make(chan int), user("never")})))
		if len(acks) != 1 || err == nil {
			t.Errorf("%v %v", acks, err)
		}
		// A loop that is left, and a body that is closed, hold nothing up.
		for _, err := range task.AppendMany(ctx, anys(messages)) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		must(task.Current(ctx, nil))(t).Close()
		must(task.Append(ctx, user("The end.")))(t)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if _, err := task.Get(ctx); err == nil {
			t.Error("a closed client makes calls")
		}
	})
}

// feature: plans
// feature: usage
func TestRecordsBesideTheMessages(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx := t.Context()
		task := must(client.StartTask(ctx, nil))(t)
		_, err := task.LatestPlan(ctx)
		isReason(t, err, contextstore.PlanNotFound)
		_, err = task.LatestSummary(ctx)
		isReason(t, err, contextstore.SummaryNotFound)
		for n := range 3 {
			must(task.AppendPlan(ctx, "initial", map[string]int{"step": n}))(t)
			must(task.RecordToolCall(ctx, &pb.RecordToolCallRequest{ToolName: "ls", ArgumentsJson: `{"dir":"."}`}))(t)
		}
		if plan := must(task.LatestPlan(ctx))(t); plan.GetId() != 3 || plan.GetPlanContentJson() != `{"step":2}` {
			t.Errorf("%v", plan)
		}
		if plans := must(collected(task.Plans(ctx, &pb.StreamPlansRequest{FromId: 2})))(t); len(plans) != 2 || plans[0].Seq != 2 || plans[0].Kind != "plan" {
			t.Errorf("%v", plans)
		}
		if calls := must(collected(task.ToolCalls(ctx, &pb.StreamToolCallsRequest{Limit: 2})))(t); len(calls) != 2 || calls[1].Seq != 2 {
			t.Errorf("%v", calls)
		}
		must(task.RecordUsage(ctx, &pb.RecordUsageRequest{InputTokens: 10, OutputTokens: 5}))(t)
		if counts := must(task.UpdateStatistics(ctx, &pb.UpdateStatisticsRequest{LlmCalls: 2}))(t); counts.GetLlmCallCount() != 3 || counts.GetTotalTokens() != 15 {
			t.Errorf("%v", counts)
		}
		tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "ls"}}}
		if usage := must(task.ContextUsage(ctx, tools))(t); usage.GetToolsTokens() == 0 {
			t.Errorf("%v", usage)
		}
		must(task.ContextUsage(ctx, nil))(t)
	})
}

// feature: watch
func TestWhatHappensIsTold(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), nil))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var token string
		for event, err := range task.Watch(ctx, "v1.0.0.0") {
			if err != nil {
				t.Fatal(err)
			}
			if event.GetStatusChanged().GetStatus() == pb.TaskStatus_TASK_STATUS_RUNNING {
				token = event.GetResumeToken()
				must(task.Append(ctx, user("Seen?")))(t)
			}
			if event.GetMessageAppended().GetSeq() == 1 {
				break
			}
		}
		for event, err := range task.Watch(ctx, token) {
			if err == nil && event.GetMessageAppended().GetSeq() == 1 {
				cancel()
				continue
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v %v", event, err)
			}
		}
	})
}

// feature: compress
// feature: agent-compaction
// feature: undo
// feature: rewind
func TestAContextIsMadeSmallAndTakenBack(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx := t.Context()
		start := uncompressed()
		start.Config.ContextLength, start.SystemMessage = proto.Uint64(4000), "You keep a diary."
		task := must(client.StartTask(ctx, start))(t)
		var diary []contextstore.Message
		for day := range 20 {
			diary = append(diary, user("Day %d: see src/day_%d.rs. %s", day, day, strings.Repeat("It rained again. ", 12)),
				contextstore.Message{Role: "assistant", Content: "Noted. " + strings.Repeat("The rain is noted. ", 12)})
		}
		must(collected(task.AppendMany(ctx, anys(diary))))(t)
		before := view(t, task)

		var stages []string
		done := must(task.Compress(ctx, nil, func(p *pb.CompressResponse_Progress) { stages = append(stages, contextstore.EnumName(p.GetStage())) }))(t)
		if !done.GetCompressed() || !slices.Equal(stages, []string{"extracting", "summarizing", "publishing"}) {
			t.Errorf("%v %v", done, stages)
		}
		if summary := must(task.LatestSummary(ctx))(t); summary.GetId() != 1 || len(view(t, task)) >= len(before) {
			t.Errorf("%v", summary)
		}
		if summaries := must(collected(task.Summaries(ctx, nil)))(t); len(summaries) != 1 || summaries[0].Seq != 1 {
			t.Errorf("%v", summaries)
		}
		must(task.Undo(ctx))(t)
		if got := view(t, task); !slices.Equal(got, before) {
			t.Errorf("%d messages", len(got))
		}
		_, err := task.Undo(ctx)
		isReason(t, err, contextstore.NothingToUndo)

		// By the agent itself.
		given := must(task.BeginCompaction(ctx, nil))(t)
		if err := given.Abort(ctx); err != nil || given.Abort(ctx) != nil {
			t.Error(err)
		}
		own := must(task.BeginCompaction(ctx, nil))(t)
		lines := must(collected(own.Read()))(t)
		if uint64(len(lines)) != own.GetMessages() || own.GetPrompt() == "" {
			t.Errorf("%d of %d", len(lines), own.GetMessages())
		}
		_, err = own.Commit(ctx, &pb.CommitCompactionRequest{Summary: ""})
		isReason(t, err, contextstore.SummaryRefused)
		done = must(own.Commit(ctx, &pb.CommitCompactionRequest{Summary: "It rained for weeks, and the roof leaked."}))(t)
		if done.GetSummaryAuthor() != pb.SummaryAuthor_SUMMARY_AUTHOR_AGENT || own.Abort(ctx) != nil {
			t.Errorf("%v", done)
		}
		if back := must(task.Rewind(ctx, 1))(t); back.GetGeneration() == 0 || len(view(t, task)) != 1 {
			t.Errorf("%v", back)
		}
	})
}

// feature: inheritance
func TestATaskGoesOnWhereAnotherEnded(t *testing.T) {
	t.Parallel()
	client := startServer(t).connect("unix")
	ctx := t.Context()
	key := &pb.TaskKey{TaskSource: "github", Owner: "o", Repo: "r", TaskType: "issue", TaskId: "7"}
	first := must(client.StartTask(ctx, &pb.StartTaskRequest{Key: key, User: "ada"}))(t)
	must(first.Append(ctx, user("Fix it.")))(t)
	must(first.Complete(ctx, "It was the cache."))(t)
	var previous []*pb.PreviousContext
	eventually(t, "it is found", func() bool {
		previous = must(client.PreviousContexts(ctx, &pb.FindPreviousContextsRequest{Key: key, User: "ada"}))(t)
		return len(previous) == 1
	})
	taken := must(client.InheritanceContext(ctx, &pb.GetInheritanceContextRequest{TaskUuid: previous[0].GetTaskUuid()}))(t)
	second := must(client.StartTask(ctx, &pb.StartTaskRequest{Key: key, User: "ada"}))(t)
	if !strings.Contains(taken.GetText(), "It was the cache.") || second.InheritedFrom != first.UUID || second.InheritanceComment == "" {
		t.Errorf("%v %v", taken, second)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	task := must(s.connect("unix").StartTask(t.Context(), nil))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, err := range task.Messages(ctx, &pb.StreamMessagesRequest{Follow: true, Kinds: []pb.RecordKind{pb.RecordKind_RECORD_KIND_MESSAGE}}) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
	if _, err := task.Append(ctx, user("Late.")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	_, err := s.connect("unix").Task("17").Get(t.Context())
	isReason(t, err, contextstore.InvalidField)
	nobody := must(contextstore.Connect("unix:"+s.dataDir+"/nobody.sock", contextstore.WithRetryFor(0)))(t)
	defer nobody.Close()
	var failure *contextstore.Error
	if _, err := nobody.ServerInfo(t.Context()); !errors.As(err, &failure) || failure.Code != codes.Unavailable {
		t.Errorf("%v", err)
	}
	short, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	if err := nobody.WaitUntilReady(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestAWrongTokenIsReadAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	wrong := must(contextstore.Connect(s.tcp, contextstore.WithToken("wrong")))(t)
	defer wrong.Close()
	_, err := wrong.ServerInfo(t.Context())
	isReason(t, err, contextstore.Unauthenticated)
	if err := wrong.WaitUntilReady(t.Context()); err != nil {
		t.Errorf("health needs no token: %v", err)
	}
}
