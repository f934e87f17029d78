// Runs tests/scenarios of the repository, over both transports; the format is described there.

package contextstore_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

type scenario struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Steps []step `json:"steps"`
}

type step struct {
	Call          string            `json:"call"`
	Request       any               `json:"request"`
	Requests      []any             `json:"requests"`
	Expect        any               `json:"expect"`
	ExpectStream  []any             `json:"expect_stream"`
	ExpectText    *string           `json:"expect_text"`
	ExpectRecords []any             `json:"expect_records"`
	Error         *refusal          `json:"error"`
	Save          map[string]string `json:"save"`
}

type refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Field  string `json:"field"`
}

// methods are those of both services, by their names.
func methods() map[string]protoreflect.MethodDescriptor {
	found := map[string]protoreflect.MethodDescriptor{}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_contextstore_v1_context_store_proto, pb.File_contextstore_v1_tool_outputs_proto,
	} {
		for at := range file.Services().Len() {
			service := file.Services().Get(at)
			for at := range service.Methods().Len() {
				found[string(service.Methods().Get(at).Name())] = service.Methods().Get(at)
			}
		}
	}
	return found
}

func scenarios(t *testing.T) map[string]scenario {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(repository, "tests/scenarios/*.json")))(t)
	all := map[string]scenario{}
	for _, file := range files {
		var one scenario
		decoder := json.NewDecoder(strings.NewReader(string(must(os.ReadFile(file))(t))))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = one
	}
	if len(all) == 0 {
		t.Fatal("there are no scenarios")
	}
	return all
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	all := scenarios(t)
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		for name, one := range all {
			t.Run(name, func(t *testing.T) {
				saved := map[string]any{}
				for at, step := range one.Steps {
					if err := step.run(t.Context(), client, saved); err != nil {
						t.Fatalf("step %d (%s): %v", at+1, step.Call, err)
					}
				}
			})
		}
	})
}

func TestEveryMethodIsUsedByAScenario(t *testing.T) {
	t.Parallel()
	unused := methods()
	for _, one := range scenarios(t) {
		for _, step := range one.Steps {
			delete(unused, step.Call)
		}
	}
	if len(unused) > 0 {
		t.Errorf("no scenario uses %v", slices.Sorted(maps.Keys(unused)))
	}
}

// A runner that lets everything pass is worth nothing.
func TestAWrongExpectationIsFound(t *testing.T) {
	t.Parallel()
	client := startServer(t).connect("unix")
	start := `{"call": "StartTask", "request": {"holder": {"instanceId": "a"}}, "save": {"uuid": "task.uuid"}}`
	for _, planted := range [][2]string{
		{`{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "expect": {"task": {"status": "TASK_STATUS_RUNNING"}}}`, ""},
		{`{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "expect": {"task": {"status": "TASK_STATUS_PAUSED"}}}`, `expect.task.status is "TASK_STATUS_RUNNING"`},
		{`{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "expect": {"task": {"nothing": ""}}}`, "expect.task.nothing is null"},
		{`{"call": "GetTask", "request": {"taskUuid": "$other"}}`, "nothing was saved as other"},
		{`{"call": "GetTask", "request": {"taskUuid": "17"}}`, "INVALID_FIELD"},
		{`{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "error": {"code": "NOT_FOUND", "reason": "X"}}`, "it succeeded"},
		{`{"call": "GetTask", "request": {"taskUuid": "17"}, "error": {"code": "NOT_FOUND", "reason": "X"}}`, "INVALID_ARGUMENT ERROR_REASON_INVALID_FIELD"},
		{`{"call": "GetTask", "request": {"taskUuid": "17"}, "error": {"code": "INVALID_ARGUMENT", "reason": "ERROR_REASON_INVALID_FIELD", "field": "seq"}}`, "not seq"},
		{`{"call": "StreamMessages", "request": {"taskUuid": "$uuid"}, "expect_records": []}`, "expect_records"},
		{`{"call": "StreamCurrent", "request": {"taskUuid": "$uuid"}, "expect_text": "x"}`, "expect_text"},
		{`{"call": "StreamPlans", "request": {"taskUuid": "$uuid"}, "expect_stream": [{}]}`, "expect_stream"},
		{`{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "save": {"x": "task.y"}}`, "nothing to save"},
		{`{"call": "NoSuch", "request": {}}`, "there is no method"},
		{`{"call": "GetTask", "request": {"taskId": "$uuid"}}`, "taskId"},
	} {
		var steps []step
		if err := json.Unmarshal([]byte("["+start+","+planted[0]+"]"), &steps); err != nil {
			t.Fatal(err)
		}
		saved := map[string]any{}
		if err := steps[0].run(t.Context(), client, saved); err != nil {
			t.Fatal(err)
		}
		err := steps[1].run(t.Context(), client, saved)
		if planted[1] == "" && err != nil || planted[1] != "" && (err == nil || !strings.Contains(err.Error(), planted[1])) {
			t.Errorf("%s: %v", planted[0], err)
		}
	}
}

func (s step) run(ctx context.Context, client *contextstore.Client, saved map[string]any) error {
	method, ok := methods()[s.Call]
	if !ok {
		return fmt.Errorf("there is no method %s", s.Call)
	}
	end := time.Now().Add(deadline)
	for {
		answers, failure, err := s.ask(ctx, client, method, saved)
		if err == nil {
			err = s.check(answers, failure, saved)
		}
		// The catalog may be behind the tasks.
		if err != nil && s.Call == "ListTasks" && time.Now().Before(end) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		var whole any = answers
		if !method.IsStreamingServer() && len(answers) > 0 {
			whole = answers[0]
		}
		for name, path := range s.Save {
			if saved[name] = at(whole, path); saved[name] == nil {
				return fmt.Errorf("nothing to save at %s of %v", path, whole)
			}
		}
		return nil
	}
}

// ask makes the call as a stream, whatever it is, and takes the answers until they end or are enough.
func (s step) ask(
	ctx context.Context, client *contextstore.Client, method protoreflect.MethodDescriptor, saved map[string]any,
) ([]any, *contextstore.Error, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	requests := s.Requests
	if requests == nil {
		requests = []any{s.Request}
	}
	var messages []proto.Message
	for _, request := range requests {
		if request == nil {
			request = map[string]any{}
		}
		filled, err := filledIn(request, saved)
		if err != nil {
			return nil, nil, err
		}
		text, err := json.Marshal(filled)
		if err != nil {
			return nil, nil, err
		}
		message := dynamicpb.NewMessage(method.Input())
		if err := protojson.Unmarshal(text, message); err != nil {
			return nil, nil, err
		}
		messages = append(messages, message)
	}
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := client.Conn().NewStream(ctx, desc, fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()))
	if err != nil {
		return nil, contextstore.AsError(err), nil
	}
	for _, message := range messages {
		if stream.SendMsg(message) != nil {
			break // Why is told by RecvMsg.
		}
	}
	_ = stream.CloseSend()
	var answers []any
	for !s.enough(answers) {
		answer := dynamicpb.NewMessage(method.Output())
		if err := stream.RecvMsg(answer); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return answers, contextstore.AsError(err), nil
		}
		text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(answer)
		if err != nil {
			return nil, nil, err
		}
		var parsed any
		if err := json.Unmarshal(text, &parsed); err != nil {
			return nil, nil, err
		}
		answers = append(answers, parsed)
	}
	return answers, nil, nil
}

// enough tells whether a call that does not end by itself has given what is expected.
func (s step) enough(answers []any) bool {
	request, _ := s.Request.(map[string]any)
	if s.Error != nil || s.Call != "WatchTask" && request["follow"] != true {
		return false
	}
	return len(answers) >= len(s.ExpectStream) && len(records(answers)) >= len(s.ExpectRecords)
}

func (s step) check(answers []any, failure *contextstore.Error, saved map[string]any) error {
	switch {
	case failure == nil && s.Error != nil:
		return fmt.Errorf("it succeeded: %v", answers)
	case failure != nil && s.Error == nil:
		return failure
	case failure != nil:
		if err := s.Error.check(failure); err != nil {
			return err
		}
	}
	var whole any
	if len(answers) > 0 {
		whole = answers[0]
	}
	var text any
	if s.ExpectText != nil {
		text = *s.ExpectText
	}
	for _, pair := range []struct {
		name            string
		wanted          bool
		found, expected any
	}{
		{"expect", s.Expect != nil, whole, s.Expect},
		{"expect_stream", s.ExpectStream != nil, answers, s.ExpectStream},
		{"expect_text", s.ExpectText != nil, data(answers), text},
		{"expect_records", s.ExpectRecords != nil, records(answers), s.ExpectRecords},
	} {
		if pair.wanted {
			expected, err := filledIn(pair.expected, saved)
			if err == nil {
				err = subset(pair.found, expected, pair.name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *refusal) check(failure *contextstore.Error) error {
	code := strings.ToUpper(wordEnd(failure.Code))
	reason := "ERROR_REASON_" + string(failure.Reason)
	if code != r.Code || reason != r.Reason {
		return fmt.Errorf("it failed with %s %s: %s", code, reason, failure.Message)
	}
	named := func(field contextstore.Field) bool { return field.Name == r.Field }
	if r.Field != "" && !slices.ContainsFunc(failure.Fields, named) {
		return fmt.Errorf("%v is named, not %s", failure.Fields, r.Field)
	}
	return nil
}

// wordEnd is NotFound as Not_Found, and Canceled as gRPC spells it elsewhere.
func wordEnd(code codes.Code) string {
	if code == codes.Canceled {
		return "Cancelled"
	}
	var out strings.Builder
	for at, c := range code.String() {
		if at > 0 && c >= 'A' && c <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(c)
	}
	return out.String()
}

func data(answers []any) any {
	var joined []byte
	for _, answer := range answers {
		text, _ := answer.(map[string]any)["data"].(string)
		piece, _ := base64.StdEncoding.DecodeString(text)
		joined = append(joined, piece...)
	}
	return string(joined)
}

func records(answers []any) []any {
	found := []any{}
	for _, answer := range answers {
		list, _ := answer.(map[string]any)["records"].([]any)
		for _, record := range list {
			line, _ := base64.StdEncoding.DecodeString(record.(string))
			var parsed any
			_ = json.Unmarshal(line, &parsed)
			found = append(found, parsed)
		}
	}
	return found
}

// filledIn is the value with what was saved in the place of `$name`.
func filledIn(value any, saved map[string]any) (any, error) {
	switch value := value.(type) {
	case string:
		name, ok := strings.CutPrefix(value, "$")
		if !ok {
			return value, nil
		}
		if saved[name] == nil {
			return nil, fmt.Errorf("nothing was saved as %s", name)
		}
		return saved[name], nil
	case []any:
		out := make([]any, len(value))
		for at, item := range value {
			filled, err := filledIn(item, saved)
			if err != nil {
				return nil, err
			}
			out[at] = filled
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for key, item := range value {
			filled, err := filledIn(item, saved)
			if err != nil {
				return nil, err
			}
			out[key] = filled
		}
		return out, nil
	}
	return value, nil
}

// at is what a dotted path leads to; nil if it leads nowhere.
func at(value any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case map[string]any:
			value = inner[key]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(inner) {
				return nil
			}
			value = inner[n]
		default:
			return nil
		}
	}
	return value
}

// subset tells what of the expected is not there.
func subset(found, expected any, path string) error {
	switch expected := expected.(type) {
	case map[string]any:
		object, ok := found.(map[string]any)
		for key, inner := range expected {
			if err := subset(object[key], inner, path+"."+key); err != nil {
				return err
			}
		}
		if ok {
			return nil
		}
	case []any:
		list, ok := found.([]any)
		if ok && len(list) == len(expected) {
			for at, inner := range expected {
				if err := subset(list[at], inner, fmt.Sprintf("%s.%d", path, at)); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		if reflect.DeepEqual(found, expected) {
			return nil
		}
	}
	have, _ := json.Marshal(found)
	want, _ := json.Marshal(expected)
	return fmt.Errorf("%s is %s, not %s", path, have, want)
}
