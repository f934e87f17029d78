// Appending messages, and what is recorded beside them.

package contextstore

import (
	"context"
	"slices"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// Append appends a message: JSON (json.RawMessage, []byte, string), a [Message], or whatever encoding/json makes an OpenAI
// chat message of. If it fails, the message is the last of NotAppended of the [*Error], unless it has no JSON.
func (t *Task) Append(ctx context.Context, message any, options ...CallOption) (*pb.AppendMessageResponse, error) {
	made, err := NewMessage(message, options...)
	if err != nil {
		return nil, err
	}
	answer, err := change(ctx, t, t.client.Stub.AppendMessage, &pb.AppendMessageRequest{
		TaskUuid: t.UUID, LeaseGeneration: t.lease.current(), Message: made,
	})
	if err != nil {
		return nil, t.notAppended(err, made)
	}
	return answer, nil
}

// notAppended is the error of a call that appends, with the message that it was given behind those of earlier calls.
func (t *Task) notAppended(err error, message *pb.NewMessage) error {
	// Others may have the same error.
	failure := *asError(err)
	failure.NotAppended, failure.task = append(slices.Clip(failure.NotAppended), message), t.UUID
	return &failure
}

// Message gives one message as it stands in the log.
func (t *Task) Message(ctx context.Context, seq uint64) (*pb.GetMessageResponse, error) {
	return ask(ctx, t, t.client.Stub.GetMessage, &pb.GetMessageRequest{TaskUuid: t.UUID, Seq: seq})
}

// Pin pins a message: no compaction takes it out of the view.
func (t *Task) Pin(ctx context.Context, seq uint64, options ...CallOption) error {
	_, err := change(ctx, t, t.client.Stub.PinMessage, &pb.PinMessageRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(), Seq: seq,
	})
	return err
}

// Unpin releases a pinned message.
func (t *Task) Unpin(ctx context.Context, seq uint64, options ...CallOption) error {
	_, err := change(ctx, t, t.client.Stub.UnpinMessage, &pb.UnpinMessageRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(), Seq: seq,
	})
	return err
}

// Rewind takes the view back to what it was after a message. The log keeps everything.
func (t *Task) Rewind(ctx context.Context, seq uint64, options ...CallOption) (*pb.RewindTaskResponse, error) {
	return change(ctx, t, t.client.Stub.RewindTask, &pb.RewindTaskRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(), Seq: seq,
	})
}

// ContextUsage tells how full the context is and how that is counted; with tools that are to be sent, if any: a list in the
// form of OpenAI's chat completions, or its JSON.
func (t *Task) ContextUsage(ctx context.Context, tools any) (*pb.GetContextUsageResponse, error) {
	request := &pb.GetContextUsageRequest{TaskUuid: t.UUID}
	if tools != nil {
		text, err := jsonOf("tools", tools)
		if err != nil {
			return nil, err
		}
		request.ToolsJson = text
	}
	return ask(ctx, t, t.client.Stub.GetContextUsage, request)
}

// RecordUsage reports the tokens of one call of the model.
func (t *Task) RecordUsage(ctx context.Context, request *pb.RecordUsageRequest) (*pb.RecordUsageResponse, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = t.UUID, t.lease.current()
	fill(&request.RequestId, newID)
	return change(ctx, t, t.client.Stub.RecordUsage, request)
}

// UpdateStatistics adds to the counters.
func (t *Task) UpdateStatistics(
	ctx context.Context, request *pb.UpdateStatisticsRequest,
) (*pb.TaskStatistics, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = t.UUID, t.lease.current()
	fill(&request.RequestId, newID)
	answer, err := change(ctx, t, t.client.Stub.UpdateStatistics, request)
	return answer.GetStatistics(), err
}

// RecordToolCall records the execution of a tool.
func (t *Task) RecordToolCall(
	ctx context.Context, request *pb.RecordToolCallRequest,
) (*pb.RecordToolCallResponse, error) {
	request = cloned(request)
	request.TaskUuid, request.LeaseGeneration = t.UUID, t.lease.current()
	fill(&request.RequestId, newID)
	return change(ctx, t, t.client.Stub.RecordToolCall, request)
}

// AppendPlan appends a plan: JSON as for Append, or whatever encoding/json takes.
func (t *Task) AppendPlan(
	ctx context.Context, planType string, content any, options ...CallOption,
) (*pb.AppendPlanResponse, error) {
	text, err := jsonOf("content", content)
	if err != nil {
		return nil, err
	}
	return change(ctx, t, t.client.Stub.AppendPlan, &pb.AppendPlanRequest{
		TaskUuid: t.UUID, RequestId: gathered(options).requestID, LeaseGeneration: t.lease.current(),
		PlanType: planType, PlanContentJson: text,
	})
}

// LatestPlan gives the newest plan. [PlanNotFound] if there is none.
func (t *Task) LatestPlan(ctx context.Context) (*pb.GetLatestPlanResponse, error) {
	return ask(ctx, t, t.client.Stub.GetLatestPlan, &pb.GetLatestPlanRequest{TaskUuid: t.UUID})
}

// LatestSummary gives the newest summary that the view has. [SummaryNotFound] if there is none.
func (t *Task) LatestSummary(ctx context.Context) (*pb.Summary, error) {
	request := &pb.GetLatestSummaryRequest{TaskUuid: t.UUID}
	answer, err := ask(ctx, t, t.client.Stub.GetLatestSummary, request)
	return answer.GetSummary(), err
}
