// Values that cannot be stored, and text that is not quite Unicode.

package contextstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// feature: too-large
func TestAMessageThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.connect("unix")
	ctx, task := t.Context(), must(client.StartTask(t.Context(), uncompressed()))(t)
	var reported []*pb.NewMessage
	message := func(size int) json.RawMessage {
		return json.RawMessage(`{"role":"user","content":"` + strings.Repeat("x", size) + `"}`)
	}
	var texts []string
	for _, size := range []int{17 << 20, 40 << 20} {
		large := message(size)
		_, appended := task.Append(ctx, large)
		later := task.AppendLater(ctx, large)
		acks, many := collected(task.AppendMany(ctx, slices.Values([]any{user("before"), large, user("behind")})))
		_, asked := collected(task.Chat(ctx, nil, large))
		_, planned := task.AppendPlan(ctx, "initial", large)
		for at, err := range []error{appended, later, many, asked, planned} {
			var failure *contextstore.Error
			isReason(t, err, contextstore.TooLarge)
			if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument || failure.Metadata["limit"] != "16777216" || failure.Metadata["size"] == "" {
				t.Errorf("%d: %v", at, err)
			}
			if at < 3 {
				left := notAppended(t, err)
				if len(left) != 1 || left[0].GetJson() != string(large) {
					t.Errorf("%d: %d are reported", at, len(left))
				}
				if size < 20<<20 {
					reported = append(reported, left...)
				}
			}
		}
		if len(acks) != 1 {
			t.Errorf("%v", acks)
		}
		texts = append(texts, strings.ReplaceAll(appended.Error(), appended.(*contextstore.Error).Metadata["size"], "SIZE"))
	}
	if texts[0] != texts[1] {
		t.Errorf("%v", texts)
	}
	// The client works on, also with what just fits.
	must(task.Append(ctx, message(15<<20)))(t)
	if now := must(task.Get(ctx))(t); now.GetTask().GetLastSeq() != 3 {
		t.Errorf("%v", now)
	}
	// Where there is room for them, they are there once.
	s.kill()
	s.env = append(s.env, "CONTEXTSTORE_LIMITS__MESSAGE_BYTES=20MiB")
	s.start()
	for _, left := range append(reported, reported...) {
		must(task.Append(ctx, left))(t)
	}
	if now := must(task.Get(ctx))(t); now.GetTask().GetLastSeq() != 6 {
		t.Errorf("%v", now)
	}
}

// feature: nan-refused
func TestNumbersThatJSONDoesNotHaveAreRefused(t *testing.T) {
	t.Parallel()
	task := must(startServer(t).connect("unix").StartTask(t.Context(), nil))(t)
	ctx := t.Context()
	type inner struct {
		Score float64 `json:"score"`
	}
	type part struct {
		inner
		Type  string  `json:"type"`
		Parts []*part `json:"parts,omitempty"`
		Other any     `json:"other"`
	}
	for field, value := range map[string]any{
		"message.score":               map[string]any{"role": "user", "score": math.NaN()},
		"message[1]":                  []any{1, math.Inf(1)},
		"message.parts[0].other.a[0]": part{Parts: []*part{{Other: map[string]any{"a": [1]float32{float32(math.Inf(-1))}}}}},
	} {
		_, err := task.Append(ctx, value)
		var failure *contextstore.Error
		isReason(t, err, contextstore.InvalidField)
		if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument || failure.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
		isReason(t, task.AppendLater(ctx, value), contextstore.InvalidField)
	}
	_, err := task.AppendPlan(ctx, "initial", map[string]float64{"x": math.NaN()})
	if isReason(t, err, contextstore.InvalidField); !strings.Contains(err.Error(), "content.x: NaN") {
		t.Errorf("%v", err)
	}
	_, err = task.Tool(ctx, contextstore.ToolCall{Name: "x", Arguments: []float64{math.NaN()}},
		func(context.Context) (any, error) { return nil, nil })
	if isReason(t, err, contextstore.InvalidField); !strings.Contains(err.Error(), "arguments[0]: NaN") {
		t.Errorf("%v", err)
	}
	_, err = task.Append(ctx, `{"role":"user","content":"x","score":NaN}`)
	if isReason(t, err, contextstore.InvalidField); !strings.Contains(err.Error(), "message.json") {
		t.Errorf("%v", err)
	}
	_, err = task.Update(ctx, &pb.TaskConfig{Compression: &pb.CompressionConfig{Threshold: proto.Float64(math.NaN())}})
	if isReason(t, err, contextstore.InvalidField); !strings.Contains(err.Error(), "threshold") {
		t.Errorf("%v", err)
	}
	if got := view(t, task); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// feature: lone-surrogates
func TestHalfOfACharacterIsReplaced(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		ctx, task := t.Context(), must(client.StartTask(t.Context(), &pb.StartTaskRequest{User: "a\xff"}))(t)
		// As JSON escapes it, and as bytes.
		must(task.Append(ctx, `{"role":"user","content":"a\ud83db"}`))(t)
		must(task.Append(ctx, "{\"role\":\"user\",\"content\":\"a\xffb\"}"))(t)
		must(task.Append(ctx, user("a\xffb")))(t)
		whole := &pb.NewMessage{Body: &pb.NewMessage_Fields{Fields: &pb.Message{Role: pb.Role_ROLE_USER, Content: "a\xffb"}}}
		must(task.Append(ctx, whole))(t)
		if err := task.AppendLater(ctx, whole); err != nil {
			t.Error(err)
		}
		must(collected(task.AppendMany(ctx, slices.Values([]any{json.RawMessage("{\"role\":\"user\",\"content\":\"a\xffb\"}")}))))(t)
		for _, content := range view(t, task) {
			if content != "a\uFFFDb" {
				t.Errorf("%q", content)
			}
		}
		asks(t, task, "c1", "look", "{}")
		call := contextstore.ToolCall{Name: "look", ID: "c1"}
		result, err := task.Tool(ctx, call, func(context.Context) (any, error) { return nil, errors.New("no \xff") })
		if err == nil || err.Error() != "no \xff" || result.Seq == 0 {
			t.Errorf("%v %+v", err, result)
		}
		failed := must(task.Fail(ctx, "no \xff", ""))(t)
		if failed.GetErrorMessage() != "no \uFFFD" || failed.GetUser() != "a\uFFFD" {
			t.Errorf("%v", failed)
		}
	})
}
