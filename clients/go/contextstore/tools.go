// The tools of an agent: what a model is told of them, and what runs when it calls one.

package contextstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"google.golang.org/grpc/codes"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Tool is a tool that a model can call.
type Tool struct {
	// Its name, of 1 to 64 letters, digits, _ and -.
	Name string
	// What it does, for the model.
	Description string
	// The JSON schema of its arguments: JSON, or whatever encoding/json makes it of; nil: an object without fields.
	Parameters any
	// Run is called with the arguments, and returns what [Task.Tool] takes. The model is shown its error, to do better.
	Run func(ctx context.Context, arguments json.RawMessage) (any, error)

	problem error
}

// NewTool makes a tool of a function. Its parameters are the fields of the struct A, as encoding/json reads them; one is
// required unless it is a pointer or has omitempty, and the tag `description` describes it to the model:
//
//	type readFile struct {
//		Path  string `json:"path" description:"The file, from the root of the repository"`
//		Limit int    `json:"limit,omitempty"`
//	}
//
//	tool := contextstore.NewTool("read_file", "Reads a file.", func(ctx context.Context, args readFile) (any, error) {
//		return os.Open(args.Path)
//	})
func NewTool[A any](name, description string, run func(ctx context.Context, arguments A) (any, error)) Tool {
	kind := reflect.TypeFor[A]()
	schema, err := schemaOf(kind)
	if err == nil && schema["type"] != "object" {
		err = fmt.Errorf("the arguments of a tool are an object, such as a struct, not %v", kind)
	}
	return Tool{
		Name: name, Description: description, Parameters: schema, problem: err,
		Run: func(ctx context.Context, given json.RawMessage) (any, error) {
			var arguments A
			decoder := json.NewDecoder(bytes.NewReader(given))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&arguments); err != nil {
				return nil, fmt.Errorf("the arguments do not fit: %w", err)
			}
			if required, ok := schema["required"].([]string); ok {
				var there map[string]json.RawMessage
				if json.Unmarshal(given, &there) == nil {
					for _, name := range required {
						if _, ok := there[name]; !ok {
							return nil, fmt.Errorf("the argument %s is required", name)
						}
					}
				}
			}
			return run(ctx, arguments)
		},
	}
}

// Tools are the tools of one task. Made by [Task.Tools].
type Tools struct {
	task *Task
	all  []Tool
}

// Tools gives the tools of an agent for this task: its own, and tool_output_cache and tool_output_cache_grep, with which the
// model reads and searches outputs of which its context shows only a part.
//
//	for event, err := range task.Chat(ctx, &pb.ChatRequest{ToolsJson: tools.OpenAI()}) { … }
//	answered, err := tools.Answer(ctx, done.GetMessageJson())
func (t *Task) Tools(own ...Tool) (*Tools, error) {
	tools := &Tools{task: t, all: slices.Concat(own, t.outputTools())}
	names := map[string]bool{}
	for at := range tools.all {
		tool := &tools.all[at]
		switch {
		case !isToolName(tool.Name):
			return nil, fmt.Errorf("contextstore: tool %q: a name is 1 to 64 letters, digits, _ and -", tool.Name)
		case names[tool.Name]:
			return nil, fmt.Errorf("contextstore: tool %q: there are two of this name", tool.Name)
		case tool.problem != nil:
			return nil, fmt.Errorf("contextstore: tool %q: %w", tool.Name, tool.problem)
		case tool.Run == nil:
			return nil, fmt.Errorf("contextstore: tool %q: Run is missing", tool.Name)
		}
		names[tool.Name] = true
		if tool.Parameters == nil {
			tool.Parameters = map[string]any{"type": "object", "properties": map[string]any{}}
		}
		text, err := jsonOf("parameters", tool.Parameters)
		if err != nil || !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("contextstore: tool %q: Parameters is no JSON schema: %w", tool.Name, err)
		}
		tool.Parameters = json.RawMessage(text)
	}
	return tools, nil
}

func isToolName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// form is the JSON of the tools in the form of an API.
func (s *Tools) form(one func(tool Tool) map[string]any) string {
	forms := make([]map[string]any, len(s.all))
	for at, tool := range s.all {
		forms[at] = one(tool)
	}
	// All of it was JSON already.
	text, _ := json.Marshal(forms)
	return string(text)
}

// OpenAI returns the JSON of the tools for OpenAI's chat completions, for what speaks like it, and for ToolsJson of
// [Task.Chat] and [Task.Request], whoever is asked.
func (s *Tools) OpenAI() string {
	return s.form(func(tool Tool) map[string]any {
		function := map[string]any{"name": tool.Name, "description": tool.Description, "parameters": tool.Parameters}
		return map[string]any{"type": "function", "function": function}
	})
}

// OpenAIResponses returns the JSON of the tools for OpenAI's Responses API.
func (s *Tools) OpenAIResponses() string {
	return s.form(func(tool Tool) map[string]any {
		return map[string]any{
			"type": "function", "name": tool.Name, "description": tool.Description, "parameters": tool.Parameters, "strict": false,
		}
	})
}

// Anthropic returns the JSON of the tools for Anthropic's Messages API.
func (s *Tools) Anthropic() string {
	return s.form(func(tool Tool) map[string]any {
		return map[string]any{"name": tool.Name, "description": tool.Description, "input_schema": tool.Parameters}
	})
}

// Answer runs the calls of an assistant message, one after the other, and records and answers each in the log, as [Task.Tool]
// does. It returns how many there were: none, and the turn of the agent is over. The message is that of OpenAI's chat
// completions: MessageJson of pb.ChatDone, or whatever [Task.Append] takes.
//
// What a tool fails with is shown to the model. An error of Answer is of the store, or of the context.
func (s *Tools) Answer(ctx context.Context, message any) (int, error) {
	if made, ok := message.(*pb.NewMessage); ok && made.GetJson() != "" {
		message = made.GetJson()
	}
	text, err := jsonOf("message", message)
	if err != nil {
		return 0, err
	}
	var asked struct {
		ToolCalls []json.RawMessage `json:"tool_calls"`
	}
	if err := json.Unmarshal([]byte(text), &asked); err != nil {
		return 0, invalidField(InvalidField, "message", err, "it is no chat message: %v", err)
	}
	for at, one := range asked.ToolCalls {
		call, err := modelCallOf(one)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return at, asError(err)
		}
		var result *ToolResult
		result, err = s.task.Tool(ctx, call.toolCall(), func(ctx context.Context) (any, error) { return s.run(ctx, call) })
		if err != nil && (result.Err == nil || err != result.Err) {
			return at, err
		}
	}
	return len(asked.ToolCalls), nil
}

// Dispatch runs one call, as a model of OpenAI (chat completions or Responses) or Anthropic (a tool_use block) makes it, and
// returns what to answer to it in the same form; nil if there is no such tool. It records and appends nothing, but an output
// is kept whole, and the answer is its view. What a tool fails with stands in the answer.
func (s *Tools) Dispatch(ctx context.Context, call any) (json.RawMessage, error) {
	text, err := jsonOf("call", call)
	if err != nil {
		return nil, err
	}
	asked, err := modelCallOf([]byte(text))
	if err != nil || s.find(asked.name) == nil {
		return nil, err
	}
	value, failed := s.run(ctx, asked)
	if closer, ok := value.(io.Closer); ok {
		defer closer.Close()
	}
	var content string
	if output := outputOf(value); output != nil {
		source, read := watched(output)
		header := &pb.PutToolOutputHeader{ToolName: asked.name, ToolCallId: asked.id}
		stored, err := s.task.Outputs().Put(ctx, header, source)
		if err != nil && read.err == nil {
			return nil, err
		}
		failed = errors.Join(failed, read.err)
		content = stored.GetView() + stored.GetViewJson()
	} else if value != nil || failed == nil {
		content, _, err = shown(value)
		failed = errors.Join(failed, err)
	}
	if content == "" && failed != nil {
		content = "Error: " + failed.Error()
	}
	return json.Marshal(asked.answer(content, failed != nil))
}

// find returns the tool of a name; nil if there is none.
func (s *Tools) find(name string) *Tool {
	for at := range s.all {
		if s.all[at].Name == name {
			return &s.all[at]
		}
	}
	return nil
}

// run runs the tool of a call.
func (s *Tools) run(ctx context.Context, call modelCall) (any, error) {
	tool := s.find(call.name)
	if tool == nil {
		return nil, fmt.Errorf("there is no tool %s", call.name)
	}
	arguments := call.arguments
	if !json.Valid(arguments) {
		return nil, errors.New("the arguments are not JSON")
	}
	if bytes.TrimSpace(arguments)[0] != '{' {
		return nil, errors.New("the arguments are not an object")
	}
	return tool.Run(ctx, arguments)
}

// modelCall is a call by a model, whoever's it is.
type modelCall struct {
	name, id, form string
	arguments      json.RawMessage
}

// modelCallOf reads a call of OpenAI's chat completions or Responses API, or a tool_use block of Anthropic's.
func modelCallOf(text json.RawMessage) (modelCall, error) {
	var wire struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		Arguments json.RawMessage `json:"arguments"`
		Function  struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return modelCall{}, newError(codes.InvalidArgument, err, "call: it is no call of a tool: %v", err)
	}
	call := modelCall{wire.Function.Name, wire.ID, "openai", wire.Function.Arguments}
	switch wire.Type {
	case "tool_use":
		call = modelCall{wire.Name, wire.ID, "anthropic", wire.Input}
	case "function_call":
		call = modelCall{wire.Name, wire.CallID, "openai_responses", wire.Arguments}
	}
	// OpenAI's models write them as text.
	var written string
	if json.Unmarshal(call.arguments, &written) == nil {
		call.arguments = json.RawMessage(written)
	}
	if len(bytes.TrimSpace(call.arguments)) == 0 || string(call.arguments) == "null" {
		call.arguments = json.RawMessage("{}")
	}
	return call, nil
}

// toolCall is the call as it is recorded: arguments that are no JSON, as text.
func (c modelCall) toolCall() ToolCall {
	call := ToolCall{Name: c.name, ID: c.id, Arguments: c.arguments}
	if !json.Valid(c.arguments) {
		text, _ := json.Marshal(string(c.arguments))
		call.Arguments = json.RawMessage(text)
	}
	return call
}

// answer is what goes back to the model.
func (c modelCall) answer(content string, failed bool) map[string]any {
	switch {
	case c.form == "anthropic" && failed:
		return map[string]any{"type": "tool_result", "tool_use_id": c.id, "content": content, "is_error": true}
	case c.form == "anthropic":
		return map[string]any{"type": "tool_result", "tool_use_id": c.id, "content": content}
	case c.form == "openai_responses":
		return map[string]any{"type": "function_call_output", "call_id": c.id, "output": content}
	}
	return map[string]any{"role": "tool", "tool_call_id": c.id, "content": content}
}
