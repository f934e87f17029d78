// What the package offers.

export type { ConnectOptions, TlsOptions } from "./address.js";
export type { AppendInput } from "./append.js";
export type { CallOptions, MutationOptions } from "./calls.js";
export type {
  AssistantMessage,
  AssistantToolCall,
  ChatEvent,
  ChatOptions,
  FunctionCall,
  RequestOptions,
} from "./chat.js";
export {
  Client,
  connect,
  fromEnv,
  type GarbageOptions,
  type ListOptions,
  type StartOptions,
  type TakeUpOptions,
  type TaskFilterInput,
  type TaskKey,
} from "./client.js";
export { type CommitOptions, Compaction, type CompactionOptions, type CompressOptions } from "./compress.js";
export type {
  ComplexityInput,
  DurabilityInput,
  InheritModeName,
  PresetInput,
  ProviderInput,
  ProviderName,
  RecordKindInput,
  StrategyInput,
  SummarizerInput,
  TaskOrderInput,
  TaskStatusInput,
  TokenCounterInput,
} from "./enums.js";
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
  PipelineError,
  PreconditionError,
  ProviderError,
  type Reason,
  StaleViewError,
  UnavailableError,
  UnsupportedByServerError,
} from "./errors.js";
export type {
  AppendMessageResponse,
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
// The enums of what is answered and of what can be handed in.
export {
  CompressSkipReason,
  CompressStage,
  RecordKind,
  RewriteKind,
  SummaryAuthor,
  TaskOrder,
} from "./gen/contextstore/v1/context_store_pb.js";
export type { MaskedSecrets, Pressure, Summary } from "./gen/contextstore/v1/message_pb.js";
export {
  BreakerState,
  LimitSource,
  PressureStage,
  Role,
  ToolCallStatus,
} from "./gen/contextstore/v1/message_pb.js";
export type { Task as TaskMessage } from "./gen/contextstore/v1/task_pb.js";
export {
  CompressionPreset,
  CompressionStrategy,
  Durability,
  Provider,
  Summarizer,
  TaskComplexity,
  TaskHealth,
  TaskStatus,
  TokenCounter,
} from "./gen/contextstore/v1/task_pb.js";
export type {
  CollectGarbageResponse,
  GrepLine,
  ToolOutput,
  ToolOutputRef,
  TrimToolOutputsResponse,
} from "./gen/contextstore/v1/tool_outputs_pb.js";
export { type Found, type GrepOptions, Matches } from "./grep.js";
export { type Ending, type Hook, HookError, type HookErrors, type HookFailure } from "./hooks.js";
export type { Lease } from "./lease.js";
export {
  type OutputRecordInput,
  Outputs,
  type PutOptions,
  type ReadOptions,
  type StoredOutput,
} from "./outputs.js";
export type { HistoryOptions, Plan, RangeOptions, ViewOptions } from "./read.js";
export type { JsonObject, LogRecord } from "./records.js";
export { type ConnectOrSpawnOptions, connectOrSpawn } from "./shared.js";
export { Server, type SpawnOptions, spawn } from "./spawn.js";
export { ByteStream, View } from "./streams.js";
export { Task } from "./task.js";
export type { RunOptions, ToolRun } from "./tooling.js";
export type { OutputContent } from "./upload.js";
export type {
  AppendOptions,
  ChatMessage,
  CompressionInput,
  ConfigInput,
  Count,
  ForkOptions,
  InheritanceInput,
  MessageInput,
  OutputsInput,
  PruneInput,
  StatisticsInput,
  ToolCallInput,
  Usage,
  WindowInput,
} from "./values.js";
