// Tools: calls that are timed, recorded and answered, and Go functions that a model calls.

package contextstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// asks appends an assistant message that calls a tool.
func asks(t *testing.T, task *contextstore.Task, id, name, arguments string) string {
	t.Helper()
	message := must(json.Marshal(map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
		"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments},
	}}}))(t)
	must(task.Append(t.Context(), message))(t)
	return string(message)
}

// recorded are the tool calls that were recorded, as they are written.
func recorded(t *testing.T, task *contextstore.Task) []map[string]any {
	t.Helper()
	var found []map[string]any
	for record, err := range task.ToolCalls(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		var line map[string]any
		if err := json.Unmarshal(record.JSON, &line); err != nil {
			t.Fatal(err)
		}
		found = append(found, line)
	}
	return found
}

// feature: tool-calls
// feature: tool-wrapper
func TestACallOfAToolIsRecordedAndAnswered(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx, task := t.Context(), must(client.StartTask(t.Context(), uncompressed()))(t)
		large := strings.Repeat("test ok\n", 100_000) + "FAILED test_prices\n"
		broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 3<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))
		for at, one := range []struct {
			value   any
			err     error
			content string
			status  string
			isError bool
		}{
			{"It rains.", nil, "It rains.", "success", false},
			{map[string]int{"degrees": 7}, nil, `{"degrees":7}`, "success", false},
			{nil, nil, "null", "success", false},
			{nil, errBroken, "Error: broken", "error", true},
			{"half", errBroken, "half", "error", true},
			{[]byte(large), nil, "", "success", false},
			{strings.NewReader(large), errBroken, "", "error", true},
			{broken, nil, "Error: unexpected EOF", "error", true},
			{func() {}, nil, "Error: ", "error", true},
		} {
			id := fmt.Sprintf("c%d", at)
			asks(t, task, id, "look", `{"at": 1}`)
			call := contextstore.ToolCall{Name: "look", ID: id, Arguments: map[string]int{"at": at}}
			result, err := task.Tool(ctx, call, func(context.Context) (any, error) { return one.value, one.err })
			if (err != nil) != one.isError || err != result.Err || one.err != nil && !errors.Is(err, one.err) {
				t.Errorf("%d: %v %v", at, err, result.Err)
			}
			calls := recorded(t, task)
			last := calls[len(calls)-1]
			status, _ := last["status"].(string)
			if len(calls) != at+1 || last["duration_ms"] == nil || status != one.status {
				t.Errorf("%d: %v", at, last)
			}
			if arguments := must(json.Marshal(last["arguments"]))(t); string(arguments) != fmt.Sprintf(`{"at":%d}`, at) {
				t.Errorf("%d: %s", at, arguments)
			}
			shown := view(t, task)
			if answer := shown[len(shown)-1]; answer != result.Content && result.Stored == nil || !strings.HasPrefix(answer, one.content) ||
				result.Seq != uint64(len(shown)) {
				t.Errorf("%d: %q %+v", at, answer, result)
			}
			if one.content == "" {
				request := &pb.ReadToolOutputRequest{RefId: result.Stored.GetRef().GetId(), Raw: true}
				if got := must(io.ReadAll(must(task.Outputs().Read(ctx, request))(t)))(t); string(got) != large {
					t.Errorf("%d: %d bytes", at, len(got))
				}
			}
		}

		// Without a call of the model, nothing is appended; and a tool that outlives its context is recorded all the same.
		before := len(view(t, task))
		short, cancel := context.WithCancel(ctx)
		_, err := task.Tool(short, contextstore.ToolCall{Name: "slow"}, func(ctx context.Context) (any, error) {
			cancel()
			return nil, ctx.Err()
		})
		if calls := recorded(t, task); !errors.Is(err, context.Canceled) || calls[len(calls)-1]["tool_name"] != "slow" {
			t.Errorf("%v", err)
		}
		func() {
			defer func() {
				if got := recover(); got != "no" {
					t.Errorf("%v", got)
				}
			}()
			task.Tool(ctx, contextstore.ToolCall{Name: "panics"}, func(context.Context) (any, error) { panic("no") })
		}()
		calls := recorded(t, task)
		if last := calls[len(calls)-1]; last["tool_name"] != "panics" || last["status"] != "error" || len(view(t, task)) != before {
			t.Errorf("%v", last)
		}
	})
}

type lookArguments struct {
	Path  string   `json:"path" description:"The file"`
	Lines []int    `json:"lines,omitempty"`
	Depth *float64 `json:"depth"`
	Inner struct {
		On bool `json:"on"`
	} `json:"inner,omitzero"`
	hidden int
}

// feature: tool-dispatcher
func TestAModelCallsGoFunctions(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx, task := t.Context(), must(client.StartTask(t.Context(), uncompressed()))(t)
		look := contextstore.NewTool("look", "Looks.", func(_ context.Context, asked lookArguments) (any, error) {
			if asked.Path == "" {
				return nil, errBroken
			}
			return fmt.Sprintf("%s %v", asked.Path, asked.Lines), nil
		})
		plain := contextstore.Tool{Name: "plain", Run: func(_ context.Context, arguments json.RawMessage) (any, error) {
			return bytes.NewReader(bytes.Repeat([]byte("many lines\n"), 20_000)), nil
		}}
		tools := must(task.Tools(look, plain))(t)
		var described []struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        map[string]any
			}
		}
		if err := json.Unmarshal([]byte(tools.OpenAI()), &described); err != nil || len(described) != 4 {
			t.Fatalf("%v %v", err, described)
		}
		var schema any
		json.Unmarshal([]byte(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
			"path":{"type":"string","description":"The file"},"lines":{"type":"array","items":{"type":"integer"}},"depth":{"type":"number"},
			"inner":{"type":"object","additionalProperties":false,"required":["on"],"properties":{"on":{"type":"boolean"}}}}}`), &schema)
		if got := described[0]; got.Function.Name != "look" || got.Function.Description != "Looks." || got.Type != "function" ||
			!reflect.DeepEqual(any(got.Function.Parameters), schema) {
			t.Errorf("%v", got)
		}
		if !strings.Contains(tools.Anthropic(), `"input_schema"`) || !strings.Contains(tools.OpenAIResponses(), `"strict":false`) {
			t.Error("other forms")
		}
		must(task.ContextUsage(ctx, tools.OpenAI()))(t)

		// Answer records and appends; a call that the model got wrong is told so.
		for at, one := range []struct{ name, arguments, answer string }{
			{"look", `{"path": "a.go", "lines": [1, 2]}`, "a.go [1 2]"},
			{"look", `{"path": ""}`, "Error: broken"},
			{"look", `{"lines": [1]}`, "Error: the argument path is required"},
			{"look", `{"path": "a", "no": 1}`, "Error: the arguments do not fit"},
			{"look", `{"path": `, "Error: the arguments are not JSON"},
			{"look", `[1]`, "Error: the arguments are not an object"},
			{"nothing", `{}`, "Error: there is no tool nothing"},
			{"plain", ``, "many lines\n"},
		} {
			message := asks(t, task, fmt.Sprintf("c%d", at), one.name, one.arguments)
			answered, err := tools.Answer(ctx, message)
			shown := view(t, task)
			if err != nil || answered != 1 || !strings.HasPrefix(shown[len(shown)-1], one.answer) {
				t.Errorf("%v: %d %v: %q", one, answered, err, shown[len(shown)-1])
			}
		}
		if calls := recorded(t, task); len(calls) != 8 {
			t.Errorf("%d calls", len(calls))
		}
		if answered := must(tools.Answer(ctx, contextstore.Message{Role: "assistant", Content: "Done."}))(t); answered != 0 {
			t.Errorf("%d", answered)
		}

		// Dispatch answers in the form of the call.
		ref := must(collected(task.Outputs().List(ctx)))(t)[0].GetRef().GetId()
		for _, one := range [][2]string{
			{`{"type":"tool_use","id":"t1","name":"look","input":{"path":"x"}}`, `{"content":"x []","tool_use_id":"t1","type":"tool_result"}`},
			{`{"type":"tool_use","id":"t1","name":"look","input":{"path":""}}`, `{"content":"Error: broken","is_error":true,"tool_use_id":"t1","type":"tool_result"}`},
			{`{"type":"function_call","call_id":"f1","name":"look","arguments":"{\"path\":\"x\"}"}`, `{"call_id":"f1","output":"x []","type":"function_call_output"}`},
			{`{"id":"c","type":"function","function":{"name":"look","arguments":"{\"path\":\"x\"}"}}`, `{"content":"x []","role":"tool","tool_call_id":"c"}`},
			{`{"id":"c","type":"function","function":{"name":"other","arguments":"{}"}}`, ``},
			{`{"id":"c","type":"function","function":{"name":"tool_output_cache","arguments":{"ref_id":"` + ref + `","offset":19998}}}`,
				`{"content":" 19999\tmany lines\n 20000\tmany lines\n[end: 20000 lines]","role":"tool","tool_call_id":"c"}`},
			{`{"id":"c","type":"function","function":{"name":"tool_output_cache_grep","arguments":{"pattern":"man.","max_matches":1}}}`,
				`{"content":"` + ref + `:\n1:many lines\n[1 matches; there may be more]","role":"tool","tool_call_id":"c"}`},
			{`{"id":"c","type":"function","function":{"name":"tool_output_cache_grep","arguments":{"pattern":"nothing"}}}`,
				`{"content":"No line matches.","role":"tool","tool_call_id":"c"}`},
		} {
			if answer := must(tools.Dispatch(ctx, one[0]))(t); string(answer) != one[1] {
				t.Errorf("%s: %s", one[0], answer)
			}
		}
		wrong := must(tools.Dispatch(ctx, `{"id":"c","function":{"name":"tool_output_cache_grep","arguments":"{\"pattern\":\"(\"}"}}`))(t)
		if !strings.Contains(string(wrong), "Error: ") {
			t.Errorf("%s", wrong)
		}
		if calls := recorded(t, task); len(calls) != 8 {
			t.Errorf("%d calls", len(calls))
		}
	})
}

func TestToolsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	client := must(contextstore.Connect("unix:/nowhere"))(t)
	defer client.Close()
	run := func(context.Context, json.RawMessage) (any, error) { return nil, nil }
	type endless struct{ Next []endless }
	for problem, tools := range map[string][]contextstore.Tool{
		"a name is":        {{Name: "a b", Run: run}},
		"two of this name": {{Name: "a", Run: run}, {Name: "a", Run: run}},
		"Run is missing":   {{Name: "a"}},
		"no JSON schema":   {{Name: "a", Run: run, Parameters: "{"}},
		"contains itself":  {contextstore.NewTool("a", "", func(context.Context, endless) (any, error) { return nil, nil })},
		"are an object":    {contextstore.NewTool("a", "", func(context.Context, int) (any, error) { return nil, nil })},
	} {
		if _, err := client.Task("t").Tools(tools...); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
	}
}
