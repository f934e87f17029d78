// The short names of the values of enums.

package contextstore_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

func roundTrip[E contextstore.Enum](t *testing.T, value E, name string) {
	t.Helper()
	if got := contextstore.EnumName(value); got != name {
		t.Errorf("the name of %v is %q, not %q", value, got, name)
	}
	if got, err := contextstore.ParseEnum[E]("field", name); err != nil || got != value {
		t.Errorf("%q is %v: %v", name, got, err)
	}
}

func TestEnumValuesHaveShortNames(t *testing.T) {
	t.Parallel()
	roundTrip(t, pb.TaskStatus_TASK_STATUS_RUNNING, "running")
	roundTrip(t, pb.TaskHealth_TASK_HEALTH_NEWER_FORMAT, "newer_format")
	roundTrip(t, pb.Provider_PROVIDER_OPENAI_RESPONSES, "openai_responses")
	roundTrip(t, pb.TokenCounter_TOKEN_COUNTER_O200K, "o200k")
	roundTrip(t, pb.CompressionStrategy_COMPRESSION_STRATEGY_WINDOW, "window")
	roundTrip(t, pb.ToolCallStatus_TOOL_CALL_STATUS_UNSPECIFIED, "")
	if got := contextstore.EnumName(pb.TaskStatus(99)); got != "99" {
		t.Errorf("a status of a newer server is %q", got)
	}
}

func TestAnUnknownNameOfAnEnumIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"closed", "Running", "TASK_STATUS_RUNNING", "1", "unspecified"} {
		_, err := contextstore.ParseEnum[pb.TaskStatus]("filter.statuses[1]", name)
		var failure *contextstore.Error
		if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument || failure.Fields[0].Name != "filter.statuses[1]" {
			t.Errorf("%q: %v", name, err)
			continue
		}
		isReason(t, err, contextstore.InvalidField)
		if !strings.Contains(err.Error(), "filter.statuses[1]: ") || !strings.Contains(err.Error(), "running, paused, completed or failed") {
			t.Errorf("%v", err)
		}
	}
}
