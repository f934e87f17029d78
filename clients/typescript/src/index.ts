// What the package offers.

export type { ConnectOptions } from "./address.js";
export type { AppendInput } from "./append.js";
export type { CallOptions, MutationOptions } from "./calls.js";
export type { AssistantMessage, ChatEvent, ChatOptions, FunctionCall, RequestOptions } from "./chat.js";
export { Client, connect, fromEnv, type ListOptions, type StartOptions } from "./client.js";
export { type CommitOptions, Compaction, type CompactionOptions, type CompressOptions } from "./compress.js";
export {
  AccessError,
  CancelledError,
  ContextStoreError,
  DeadlineError,
  type ErrorCode,
  ExhaustedError,
  type FieldViolation,
  InvalidRequestError,
  LeaseError,
  NotFoundError,
  PreconditionError,
  ProviderError,
  type Reason,
  StaleViewError,
  UnavailableError,
} from "./errors.js";
export type {
  AppendMessageResponse,
  AppendMessagesResponse,
  CompressDone,
  CompressResponse_Progress as CompressProgress,
  GetContextUsageResponse,
  GetInheritanceContextResponse,
  GetServerInfoResponse,
  GetTaskResponse,
  PreviousContext,
  UndoCompactionResponse,
  WatchTaskResponse,
} from "./gen/contextstore/v1/context_store_pb.js";
export type { Pressure, Summary } from "./gen/contextstore/v1/message_pb.js";
export type { Task as TaskMessage } from "./gen/contextstore/v1/task_pb.js";
export { type Ending, type Hook, HookError, type HookErrors, type HookFailure } from "./hooks.js";
export type { Lease } from "./lease.js";
export type { HistoryOptions, Plan, RangeOptions, ViewOptions } from "./read.js";
export type { JsonObject, LogRecord } from "./records.js";
export { Task } from "./task.js";
export type {
  AppendOptions,
  ChatMessage,
  CompressionInput,
  ConfigInput,
  Count,
  ForkOptions,
  InheritanceInput,
  MessageInput,
  PruneInput,
  StatisticsInput,
  ToolCallInput,
  Usage,
  WindowInput,
} from "./values.js";
