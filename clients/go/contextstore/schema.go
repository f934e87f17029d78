// The JSON schema of the arguments of a Go function.

package contextstore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

var (
	timeType     = reflect.TypeFor[time.Time]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	marshalsSelf = reflect.TypeFor[json.Marshaler]()
)

// schemaOf is the JSON schema of a type as encoding/json reads it. A field of a struct is required unless it is a pointer or
// has omitempty or omitzero; its tag `description` is its description.
func schemaOf(kind reflect.Type) (map[string]any, error) {
	return schemaWithin(kind, nil)
}

func schemaWithin(kind reflect.Type, outer []reflect.Type) (map[string]any, error) {
	for _, one := range outer {
		if one == kind {
			return nil, fmt.Errorf("%v contains itself, which has no plain JSON schema; give Tool.Parameters", kind)
		}
	}
	switch {
	case kind == timeType:
		return map[string]any{"type": "string", "format": "date-time"}, nil
	case kind == rawType || kind.Implements(marshalsSelf):
		return map[string]any{}, nil
	}
	switch kind.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.String:
		return map[string]any{"type": "string"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}, nil
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}, nil
	case reflect.Interface:
		return map[string]any{}, nil
	case reflect.Pointer:
		return schemaWithin(kind.Elem(), outer)
	case reflect.Slice, reflect.Array:
		items, err := schemaWithin(kind.Elem(), outer)
		return map[string]any{"type": "array", "items": items}, err
	case reflect.Map:
		if kind.Key().Kind() == reflect.String {
			values, err := schemaWithin(kind.Elem(), outer)
			return map[string]any{"type": "object", "additionalProperties": values}, err
		}
	case reflect.Struct:
		return structSchema(kind, append(outer, kind))
	}
	return nil, fmt.Errorf("%v has no JSON schema; give Tool.Parameters", kind)
}

func structSchema(kind reflect.Type, outer []reflect.Type) (map[string]any, error) {
	properties, required := map[string]any{}, []string{}
	for _, field := range reflect.VisibleFields(kind) {
		name, isSent := jsonName(field)
		if !isSent || field.Anonymous && field.Tag.Get("json") == "" || len(field.Index) > 1 && !isPromoted(kind, field) {
			continue
		}
		inner, err := schemaWithin(field.Type, outer)
		if err != nil {
			return nil, err
		}
		if words := field.Tag.Get("description"); words != "" {
			inner["description"] = words
		}
		properties[name] = inner
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type.Kind() != reflect.Pointer && !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}, nil
}

// isPromoted tells whether a field of an embedded struct is one of the outer in JSON: if none that it is in has a name there.
func isPromoted(kind reflect.Type, field reflect.StructField) bool {
	for _, at := range field.Index[:len(field.Index)-1] {
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		outer := kind.Field(at)
		if outer.Tag.Get("json") != "" {
			return false
		}
		kind = outer.Type
	}
	return true
}
