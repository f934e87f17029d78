// What callers give, as the protocol has it.

package contextstore

import (
	"encoding/json"
	"iter"
	"reflect"

	"google.golang.org/protobuf/proto"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Message is an OpenAI chat message with text. It is for the plain case: whatever encoding/json makes a chat message of can
// be appended, such as the types of an SDK.
type Message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	Name       string `json:"name,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// CallOption goes with a change.
type CallOption interface{ apply(*extras) }

// RequestID names the call. Without it a call gets a new one; give the same again to repeat a call whose outcome is not known.
type RequestID string

// OutputRef names the full output of a tool, of which the message that is appended is a view.
type OutputRef string

type pinned struct{}

// Pinned pins the message that is appended: no compaction takes it out of the view.
func Pinned() CallOption { return pinned{} }

type extras struct {
	requestID string
	outputRef string
	pinned    bool
}

func (id RequestID) apply(e *extras)  { e.requestID = string(id) }
func (ref OutputRef) apply(e *extras) { e.outputRef = string(ref) }
func (pinned) apply(e *extras)        { e.pinned = true }

func gathered(options []CallOption) extras {
	var e extras
	for _, option := range options {
		option.apply(&e)
	}
	fill(&e.requestID, newID)
	return e
}

// NewMessage makes what a pipeline or a turn of a model takes out of a message and what goes with it: a *pb.NewMessage as it
// is, JSON (json.RawMessage, []byte, string), or whatever encoding/json makes a chat message of.
func NewMessage(message any, options ...CallOption) (*pb.NewMessage, error) {
	e := gathered(options)
	if made, ok := message.(*pb.NewMessage); ok {
		made = proto.CloneOf(made)
		made.Pinned = made.Pinned || e.pinned
		fill(&made.RequestId, func() string { return e.requestID })
		fill(&made.OutputRef, func() string { return e.outputRef })
		return made, nil
	}
	text, err := jsonOf("message", message)
	if err != nil {
		return nil, err
	}
	return &pb.NewMessage{
		Body:      &pb.NewMessage_Json{Json: text},
		Pinned:    e.pinned,
		OutputRef: e.outputRef,
		RequestId: e.requestID,
	}, nil
}

// jsonOf is the JSON of the value of a field; text passes for JSON already.
func jsonOf(field string, value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case []byte:
		return string(value), nil
	case json.RawMessage:
		return string(value), nil
	}
	text, err := json.Marshal(value)
	if err == nil {
		return string(text), nil
	}
	if path, number, found := notANumber(reflect.ValueOf(value), field, 0); found {
		return "", invalidField(InvalidField, path, err, "%v is no number of JSON; send null, or leave it out", number)
	}
	return "", invalidField(InvalidField, field, err, "it has no JSON: %v", err)
}

// cloned is a request that can be filled in; nil stands for an empty one.
func cloned[M any, P interface {
	*M
	proto.Message
}](request P) P {
	if request == nil {
		return new(M)
	}
	return proto.CloneOf(request)
}

// fill gives a field a value if it has none.
func fill(field *string, value func() string) {
	if *field == "" {
		*field = value()
	}
}

// pages asks for one page after the other; ask answers what is on a page, and the token of the next.
func pages[T any](ask func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token, more := "", true; more; more = token != "" {
			items, next, err := ask(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			token = next
		}
	}
}
