// What is checked of a request before it is sent: text that is not UTF-8, numbers that JSON does not have, its size.

package contextstore

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

const (
	// A request up to this size is sent without asking how large it may be: the server refuses it itself.
	surelyTaken = 1 << 20
	// A request may be this much larger than a message: what stands beside the message in it.
	besideMessage = 64 << 10
)

// messageLimit is what the server takes, in bytes of a message; 0 until it was asked.
type messageLimit struct {
	atomic.Uint64
}

// prepare makes a request one that can be sent, or says why it cannot.
func (c *Client) prepare(ctx context.Context, request proto.Message) error {
	repairText(request.ProtoReflect())
	return c.checkSize(ctx, request)
}

// checkSize refuses a request that is larger than the server takes, as the server does, but without sending it.
func (c *Client) checkSize(ctx context.Context, request proto.Message) error {
	size := uint64(proto.Size(request))
	if size <= surelyTaken || size <= c.limit.Load() {
		return nil
	}
	// The server may have another configuration now. If it does not answer, the call itself says why.
	ctx, cancel := withTimeout(ctx, c.timeout)
	defer cancel()
	info, err := c.Stub.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	if err != nil || info.GetLimits().GetMessageBytes() == 0 {
		return nil
	}
	limit := info.GetLimits().GetMessageBytes()
	c.limit.Store(limit)
	if size <= limit+besideMessage {
		return nil
	}
	// In the words of the server.
	refused := newError(codes.InvalidArgument, nil, "the request has %d bytes; at most %d are allowed (limits.message_bytes)", size, limit)
	refused.Reason = TooLarge
	refused.Metadata = map[string]string{"size": strconv.FormatUint(size, 10), "limit": strconv.FormatUint(limit, 10)}
	return refused
}

// repairText replaces what is not UTF-8 in the strings of a message, which gRPC does not send, by U+FFFD.
func repairText(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, inner protoreflect.Value) bool {
					repairText(inner.Message())
					return true
				})
			}
		case field.IsList():
			list := value.List()
			for at := range list.Len() {
				switch inner := list.Get(at); {
				case field.Message() != nil:
					repairText(inner.Message())
				case field.Kind() == protoreflect.StringKind && !utf8.ValidString(inner.String()):
					list.Set(at, protoreflect.ValueOfString(valid(inner.String())))
				}
			}
		case field.Message() != nil:
			repairText(value.Message())
		case field.Kind() == protoreflect.StringKind && !utf8.ValidString(value.String()):
			message.Set(field, protoreflect.ValueOfString(valid(value.String())))
		}
		return true
	})
}

// valid is the text with U+FFFD for what is not UTF-8, such as half of a surrogate pair.
func valid(text string) string {
	return strings.ToValidUTF8(text, "\uFFFD")
}

// notANumber finds the first NaN or infinity in a value, which JSON cannot have: its path, and what it is.
func notANumber(value reflect.Value, path string, depth int) (string, float64, bool) {
	// A value that contains itself has no JSON either.
	if depth > 100 || !value.IsValid() {
		return "", 0, false
	}
	switch value.Kind() {
	case reflect.Float32, reflect.Float64:
		number := value.Float()
		return path, number, math.IsNaN(number) || math.IsInf(number, 0)
	case reflect.Pointer, reflect.Interface:
		return notANumber(value.Elem(), path, depth+1)
	case reflect.Slice, reflect.Array:
		for at := range value.Len() {
			if where, number, found := notANumber(value.Index(at), fmt.Sprintf("%s[%d]", path, at), depth+1); found {
				return where, number, true
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			inner := fmt.Sprintf("%s.%v", path, entries.Key())
			if where, number, found := notANumber(entries.Value(), inner, depth+1); found {
				return where, number, true
			}
		}
	case reflect.Struct:
		for at := range value.NumField() {
			field := value.Type().Field(at)
			name, isSent := jsonName(field)
			if !isSent {
				continue
			}
			inner := path + "." + name
			if field.Anonymous && field.Tag.Get("json") == "" {
				inner = path
			}
			if where, number, found := notANumber(value.Field(at), inner, depth+1); found {
				return where, number, true
			}
		}
	}
	return "", 0, false
}

// jsonName is the name that encoding/json gives a field of a struct, and whether it takes the field at all.
func jsonName(field reflect.StructField) (string, bool) {
	tag := field.Tag.Get("json")
	if tag == "-" || !field.IsExported() && !field.Anonymous {
		return "", false
	}
	name, _, _ := strings.Cut(tag, ",")
	if name == "" {
		name = field.Name
	}
	return name, true
}
