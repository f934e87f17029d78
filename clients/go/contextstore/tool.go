// A call of a tool that is timed, recorded, and answered in the log.

package contextstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// ToolCall is a call of a tool.
type ToolCall struct {
	// The tool. Required.
	Name string
	// The id of the model's call, which the message that is appended answers; empty: none is appended.
	ID string
	// What the tool is called with: JSON (json.RawMessage, []byte, string), or whatever encoding/json takes; nil: not recorded.
	Arguments any
}

// ToolResult is what came of a call of a tool.
type ToolResult struct {
	// How long the tool took.
	Duration time.Duration
	// What the model is shown: the content of the message.
	Content string
	// The number of the message; 0: none was appended.
	Seq uint64
	// What became of an output; nil if the tool gave none.
	Stored *pb.PutToolOutputResponse
	// What the tool failed with.
	Err error
}

// Tool runs a tool, and records the call with how long it took and what came of it. With the ID of the model's call, it appends
// the message that answers that.
//
//	result, err := task.Tool(ctx, contextstore.ToolCall{Name: "test", ID: call.ID}, func(ctx context.Context) (any, error) {
//		return exec.CommandContext(ctx, "make", "test").CombinedOutput()
//	})
//
// What run returns is an output if it is a []byte or an io.Reader, which is closed if it can be: it is kept whole, whatever its
// size, and the model is shown a cut view. Text is shown as it is, and anything else as JSON. An error of run is recorded and
// shown to the model, and returned; a panic is recorded, and goes on. The call is recorded also if the context ends meanwhile.
//
// The result is there also with an error. If that is not Err of the result, the call could not be recorded or answered.
func (t *Task) Tool(
	ctx context.Context, call ToolCall, run func(context.Context) (any, error),
) (*ToolResult, error) {
	result := &ToolResult{}
	returned := false
	var value any
	begin := time.Now()
	defer func() {
		if returned {
			return
		}
		panicked := recover()
		result.Err = fmt.Errorf("the tool panicked: %v", panicked)
		if panicked == nil {
			result.Err = errors.New("the tool ended its goroutine (runtime.Goexit)")
		}
		result.Duration = time.Since(begin)
		_ = t.recordTool(ctx, call, result, nil)
		if panicked != nil {
			panic(panicked)
		}
	}()
	value, result.Err = run(ctx)
	returned = true
	result.Duration = time.Since(begin)
	if closer, ok := value.(io.Closer); ok {
		defer closer.Close()
	}
	recorded := t.recordTool(ctx, call, result, value)
	switch {
	case recorded == nil:
		return result, result.Err
	case result.Err == nil:
		return result, recorded
	}
	return result, errors.Join(result.Err, recorded)
}

// recordTool records a call, and appends its message.
func (t *Task) recordTool(ctx context.Context, call ToolCall, result *ToolResult, value any) error {
	ctx = context.WithoutCancel(ctx)
	record := &pb.OutputRecord{Duration: durationpb.New(result.Duration)}
	if call.Arguments != nil {
		text, err := jsonOf("arguments", call.Arguments)
		if err != nil {
			return err
		}
		record.ArgumentsJson = text
	}
	failed(record, result.Err)
	if content := outputOf(value); content != nil {
		header := &pb.PutToolOutputHeader{ToolName: call.Name, ToolCallId: call.ID, Append: call.ID != "", Record: record}
		source, read := watched(content)
		stored, err := t.Outputs().Put(ctx, header, source)
		if err == nil {
			result.Stored, result.Seq, result.Content = stored, stored.GetSeq(), stored.GetView()+stored.GetViewJson()
			return nil
		}
		if read.err == nil {
			return err
		}
		// The output broke off: so has the tool.
		result.Err = errors.Join(result.Err, read.err)
		failed(record, result.Err)
		value = nil
	}
	return t.recordResult(ctx, call, record, result, value)
}

// failed says in a record what a tool failed with, if it has.
func failed(record *pb.OutputRecord, err error) {
	if err != nil {
		record.Status, record.Error = pb.ToolCallStatus_TOOL_CALL_STATUS_ERROR, err.Error()
	}
}

// recordResult is recordTool for a call that has no output.
func (t *Task) recordResult(
	ctx context.Context, call ToolCall, record *pb.OutputRecord, result *ToolResult, value any,
) error {
	request := &pb.RecordToolCallRequest{
		ToolName: call.Name, ArgumentsJson: record.GetArgumentsJson(), Status: record.GetStatus(), Error: record.GetError(),
		Duration: record.GetDuration(),
	}
	if value != nil || result.Err == nil {
		content, text, err := shown(value)
		if err != nil {
			result.Err = errors.Join(result.Err, err)
			request.Status, request.Error = pb.ToolCallStatus_TOOL_CALL_STATUS_ERROR, result.Err.Error()
		} else {
			result.Content, request.ResultJson = content, text
		}
	}
	if request.GetResultJson() == "" {
		result.Content = "Error: " + result.Err.Error()
	}
	_, recorded := t.RecordToolCall(ctx, request)
	if call.ID == "" {
		return recorded
	}
	// A call of the model has to be answered, also if it could not be recorded.
	ack, err := t.Append(ctx, Message{Role: "tool", ToolCallID: call.ID, Content: result.Content})
	result.Seq = ack.GetSeq()
	return errors.Join(recorded, err)
}

// shown is a result as the model is shown it, and as JSON.
func shown(value any) (content, text string, err error) {
	if content, ok := value.(string); ok {
		value := valid(content)
		encoded, err := json.Marshal(value)
		return value, string(encoded), err
	}
	text, err = jsonOf("result", value)
	return text, text, err
}

// outputOf is a value as an output; nil if it is none.
func outputOf(value any) io.Reader {
	switch value := value.(type) {
	case json.RawMessage:
		return nil
	case []byte:
		if value != nil {
			return bytes.NewReader(value)
		}
	case io.Reader:
		return value
	}
	return nil
}

// readerWithError remembers what a reader has failed with.
type readerWithError struct {
	io.Reader
	err error
}

func (r *readerWithError) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// watched is a reader that remembers its error; one that can seek still can.
func watched(content io.Reader) (io.Reader, *readerWithError) {
	read := &readerWithError{Reader: content}
	if seeker, ok := content.(io.Seeker); ok {
		return struct {
			*readerWithError
			io.Seeker
		}{read, seeker}, read
	}
	return read, read
}
