// The short names of the values of the protocol's enums, such as openai, as configuration files and environment variables have
// them.

package contextstore

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Enum is an enum of the protocol, such as pb.Provider.
type Enum interface {
	~int32
	protoreflect.Enum
}

// ParseEnum returns the value of an enum that has a short name: the name of the value without its prefix, in lower case. The
// empty name is that of the unspecified value.
//
//	provider, err := contextstore.ParseEnum[pb.Provider]("provider", "openai") // pb.Provider_PROVIDER_OPENAI
//
// An unknown name is [InvalidField]; the error names the field and the names that are allowed.
func ParseEnum[E Enum](field, name string) (E, error) {
	var unspecified E
	if name == "" {
		return unspecified, nil
	}
	values := unspecified.Descriptor().Values()
	var allowed []string
	for at := 1; at < values.Len(); at++ {
		short := shortName(values.Get(at))
		if short == name {
			return E(values.Get(at).Number()), nil
		}
		allowed = append(allowed, short)
	}
	last := len(allowed) - 1
	return unspecified, invalidField(InvalidField, field, nil, "%q is unknown; use %s or %s",
		name, strings.Join(allowed[:last], ", "), allowed[last])
}

// EnumName returns the short name of a value, as [ParseEnum] takes it; empty for the unspecified value. A value that only a
// newer server knows has its number for a name.
func EnumName[E Enum](value E) string {
	if value == 0 {
		return ""
	}
	known := value.Descriptor().Values().ByNumber(value.Number())
	if known == nil {
		return strconv.Itoa(int(value))
	}
	return shortName(known)
}

// shortName returns the name of a value without the prefix that all values of its enum share.
func shortName(value protoreflect.EnumValueDescriptor) string {
	unspecified := value.Parent().(protoreflect.EnumDescriptor).Values().Get(0).Name()
	prefix := strings.TrimSuffix(string(unspecified), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))
}
