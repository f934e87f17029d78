// Hooks: what an agent wants done before its task ends, and what an error of one does.

package contextstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

var errBroken = errors.New("broken")

func broken(context.Context, contextstore.Ending) error { return errBroken }

// logged is what is logged until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	var text bytes.Buffer
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	t.Cleanup(func() { slog.SetDefault(usual) })
	return &text
}

// feature: hooks
func TestHooksRunInOrderBeforeTheStatusChanges(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx := t.Context()
		task := must(client.StartTask(ctx, nil))(t)
		var seen []string
		for _, name := range []string{"first", "second", "first"} {
			hook := func(ctx context.Context, ending contextstore.Ending) error {
				now, err := ending.Task.Get(ctx)
				seen = append(seen, name+" "+ending.Status+" "+contextstore.EnumName(now.GetTask().GetStatus()))
				return err
			}
			task.OnComplete(name, hook)
			task.OnStop(name, hook)
		}
		must(task.Pause(ctx))(t)
		must(task.Resume(ctx))(t)
		if !slices.Equal(seen, []string{"first paused running", "second paused running"}) {
			t.Errorf("%v", seen)
		}
		seen = nil
		must(task.Complete(ctx, "All done."))(t)
		if !slices.Equal(seen, []string{"first completed running", "second completed running"}) {
			t.Errorf("%v", seen)
		}
	})
}

func TestAHookKnowsHowTheTaskEnds(t *testing.T) {
	t.Parallel()
	task := must(startServer(t).connect("unix").StartTask(t.Context(), nil))(t)
	var endings []contextstore.Ending
	task.OnStop("note", func(_ context.Context, ending contextstore.Ending) error {
		endings = append(endings, ending)
		return nil
	})
	task.OnComplete("never", func(context.Context, contextstore.Ending) error {
		t.Error("it was not completed")
		return nil
	})
	must(task.Fail(t.Context(), "no luck", "Tried."))(t)
	told := contextstore.Ending{Task: task, Status: "failed", FinalSummary: "Tried.", ErrorMessage: "no luck"}
	if !slices.Equal(endings, []contextstore.Ending{told}) {
		t.Errorf("%v", endings)
	}
}

func TestErrorsOfHooksAreReportedAndTheTaskEnds(t *testing.T) {
	log := logged(t)
	task := must(startServer(t).connect("unix").StartTask(t.Context(), nil))(t)
	called := false
	task.OnComplete("broken", broken)
	task.OnComplete("fine", func(context.Context, contextstore.Ending) error {
		called = true
		return nil
	})
	if done := must(task.Complete(t.Context(), "Done."))(t); done.GetStatus() != pb.TaskStatus_TASK_STATUS_COMPLETED || !called {
		t.Errorf("%v %v", done, called)
	}
	failures := task.HookFailures()
	if len(failures) != 1 || failures[0].Name != "broken" || !errors.Is(failures[0], errBroken) {
		t.Errorf("%v", failures)
	}
	if said := log.String(); !strings.Contains(said, "hook=broken") || !strings.Contains(said, task.UUID) {
		t.Errorf("%s", said)
	}
}

func TestErrorsOfHooksCanStopIt(t *testing.T) {
	logged(t)
	ctx := t.Context()
	task := must(startServer(t).connect("unix").StartTask(ctx, nil))(t)
	task.SetHookErrors(contextstore.HookErrorsStop)
	task.OnComplete("broken", broken)
	task.OnComplete("later", func(context.Context, contextstore.Ending) error {
		t.Error("it was stopped before")
		return nil
	})
	_, err := task.Complete(ctx, "")
	var failure *contextstore.Error
	var hook *contextstore.HookFailure
	if !errors.As(err, &failure) || failure.Metadata["hook"] != "broken" || !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	if !errors.As(err, &hook) || hook.Name != "broken" || status.Code(err) != codes.Aborted {
		t.Errorf("%v", err)
	}
	if now := must(task.Get(ctx))(t); now.GetTask().GetStatus() != pb.TaskStatus_TASK_STATUS_RUNNING || task.LeaseGeneration() < 1 {
		t.Errorf("%v", now)
	}
	must(task.Append(ctx, user("On.")))(t)
	fine := func(context.Context, contextstore.Ending) error { return nil }
	task.OnComplete("broken", fine)
	task.OnComplete("later", fine)
	if done := must(task.Complete(ctx, "Done."))(t); done.GetStatus() != pb.TaskStatus_TASK_STATUS_COMPLETED || len(task.HookFailures()) != 0 {
		t.Errorf("%v %v", done, task.HookFailures())
	}
}
