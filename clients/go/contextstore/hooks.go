// What an agent wants done before its task is completed or stopped.

package contextstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
)

// Ending is what is about to happen to a task.
type Ending struct {
	// The task.
	Task *Task
	// What it will be: completed, paused or failed.
	Status string
	// What is to be remembered of it; empty if the server is to make that.
	FinalSummary string
	// Why it failed.
	ErrorMessage string
}

// Hook is called before a task ends, with the context of the call that ends it.
type Hook func(context.Context, Ending) error

// HookErrors says what a hook that fails does.
type HookErrors int

const (
	// HookErrorsContinue: it is logged and kept in [Task.HookFailures], the next one is called, and the task ends all the same.
	HookErrorsContinue HookErrors = iota
	// HookErrorsStop: the call fails with an [*Error] that wraps the [*HookFailure], and the task goes on.
	HookErrorsStop
)

// HookFailure is a hook that failed.
type HookFailure struct {
	// Its name.
	Name string
	// What it said.
	Err error
}

// Error implements error.
func (f *HookFailure) Error() string {
	return fmt.Sprintf("the hook %s failed: %v", f.Name, f.Err)
}

// Unwrap gives what the hook said.
func (f *HookFailure) Unwrap() error {
	return f.Err
}

// hooks are those of one task, in the order in which their names were first registered.
type hooks struct {
	mu         sync.Mutex
	completing []named
	stopping   []named
	errors     HookErrors
	failures   []*HookFailure
}

type named struct {
	name string
	hook Hook
}

func (h *hooks) set(list *[]named, name string, hook Hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := slices.IndexFunc(*list, func(one named) bool { return one.name == name })
	if known < 0 {
		*list = append(*list, named{name, hook})
		return
	}
	(*list)[known].hook = hook
}

// OnComplete has a hook called before the task is completed, behind those that were registered before it; one of the same
// name takes the place of the first. It is called by [Task.Complete] of this Task, and again if that is called again.
func (t *Task) OnComplete(name string, hook Hook) {
	t.hooks.set(&t.hooks.completing, name, hook)
}

// OnStop is the same before the task is paused or failed.
func (t *Task) OnStop(name string, hook Hook) {
	t.hooks.set(&t.hooks.stopping, name, hook)
}

// SetHookErrors says what a hook that fails does; without it, HookErrorsContinue.
func (t *Task) SetHookErrors(errors HookErrors) {
	t.hooks.mu.Lock()
	defer t.hooks.mu.Unlock()
	t.hooks.errors = errors
}

// HookFailures gives the hooks that failed when the task was last completed or stopped.
func (t *Task) HookFailures() []*HookFailure {
	t.hooks.mu.Lock()
	defer t.hooks.mu.Unlock()
	return slices.Clone(t.hooks.failures)
}

// before calls the hooks of what is about to happen, outside of the lock: a hook may use the task.
func (t *Task) before(ctx context.Context, ending Ending) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	ending.Task = t
	t.hooks.mu.Lock()
	t.hooks.failures = nil
	list, errors := t.hooks.stopping, t.hooks.errors
	if ending.Status == "completed" {
		list = t.hooks.completing
	}
	list = slices.Clone(list)
	t.hooks.mu.Unlock()
	for _, one := range list {
		err := one.hook(ctx, ending)
		if err == nil {
			continue
		}
		failure := &HookFailure{Name: one.name, Err: err}
		slog.ErrorContext(ctx, "contextstore: a hook failed",
			"task", t.UUID, "hook", one.name, "status", ending.Status, "error", err)
		t.hooks.mu.Lock()
		t.hooks.failures = append(t.hooks.failures, failure)
		t.hooks.mu.Unlock()
		if errors == HookErrorsStop {
			stopped := newError(codes.Aborted, failure, "the hook %s failed, so the task was not %s: %v", one.name, ending.Status, err)
			stopped.Metadata = map[string]string{"hook": one.name}
			return stopped
		}
	}
	return nil
}
