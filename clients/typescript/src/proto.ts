// The generated messages and services, for callers that use `Client.rpc` and `Client.outputsRpc`.

export * from "./gen/contextstore/v1/context_store_pb.js";
export * from "./gen/contextstore/v1/error_reason_pb.js";
export * from "./gen/contextstore/v1/message_pb.js";
export * from "./gen/contextstore/v1/task_pb.js";
export * from "./gen/contextstore/v1/tool_outputs_pb.js";
