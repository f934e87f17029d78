// The errors of the client, and how those of the transport become them. Decides nothing about retries of a call.

import { Code, ConnectError } from "@connectrpc/connect";
import type { AppendInput } from "./append.js";
import type { ErrorReason } from "./gen/contextstore/v1/error_reason_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** The name of a gRPC code. */
export type ErrorCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

/** The name of an ErrorReason of the protocol, such as `TASK_NOT_FOUND`; a newer server may know more of them. */
export type Reason = keyof typeof ErrorReason | (string & {});

/** A field of a request that was refused. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** What is known of an error beside its message. */
export interface ErrorDetails {
  readonly code: ErrorCode;
  readonly reason?: Reason;
  readonly fields?: readonly FieldViolation[];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly retryAfterMs?: number;
  readonly method?: string;
  readonly address?: string;
  readonly cause?: unknown;
}

/**
 * Every error of a call. Decide by the class or by `reason`; the words of `message` may change.
 *
 * @example
 * ```ts
 * try {
 *   await task.append(message);
 * } catch (error) {
 *   if (error instanceof LeaseError) console.error(`held by ${error.metadata.hostname}`);
 *   else if (error instanceof ContextStoreError && error.reason === "WRONG_STATUS") await task.resume();
 *   else throw error;
 * }
 * ```
 */
export class ContextStoreError extends Error {
  /** The gRPC code. */
  readonly code: ErrorCode;
  /**
   * Why the server refused the call. Of the client itself come `NO_SERVER`, `NOT_REPEATABLE`, and `TOO_LARGE` for what is not
   * even sent; not set if there is no reason to tell apart.
   */
  readonly reason: Reason | undefined;
  /** The fields that were refused. */
  readonly fields: readonly FieldViolation[];
  /** The data that goes with the reason, such as the holder of a lease. */
  readonly metadata: Readonly<Record<string, string>>;
  /** After how long a retry helps, if the server said so. */
  readonly retryAfterMs: number | undefined;
  /** The method that was called, such as `AppendMessage`, if a call was made. */
  readonly method: string | undefined;
  /** Where the server was looked for, if a call was made. */
  readonly address: string | undefined;
  /**
   * After appending: the messages that are not known to be appended, in order. They can be appended again as they are, with
   * `append` or `appendMany`: they have their request ids, so each is stored once. What a failing `append` was given is the last.
   */
  readonly notAppended: readonly AppendInput[] = [];

  constructor(message: string, details: ErrorDetails) {
    super(message, { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code;
    this.reason = details.reason;
    this.fields = details.fields ?? [];
    this.metadata = details.metadata ?? {};
    this.retryAfterMs = details.retryAfterMs;
    this.method = details.method;
    this.address = details.address;
  }
}

/** The request cannot be accepted: `fields` says what is wrong with it. */
export class InvalidRequestError extends ContextStoreError {}
/** There is no such task, message, output, plan or summary. */
export class NotFoundError extends ContextStoreError {}
/** The state of the task does not allow the call. */
export class PreconditionError extends ContextStoreError {}
/** Somebody else holds the task (`LEASE_HELD`), or has taken it over (`STALE_LEASE`). */
export class LeaseError extends ContextStoreError {}
/** The view was rewritten while it was read: read it again from the start. */
export class StaleViewError extends ContextStoreError {}
/** The token is missing or wrong, or the socket belongs to another user. */
export class AccessError extends ContextStoreError {}
/** The disk, a quota or the server is full. */
export class ExhaustedError extends ContextStoreError {}
/** The server cannot be reached, or cannot do it now. */
export class UnavailableError extends ContextStoreError {}
/** A provider is not configured, refused the request, or failed: `reason` says which, `message` has its words. */
export class ProviderError extends ContextStoreError {}
/** The server is older than this client, and has no such method: `method` names it. A newer server is needed. */
export class UnsupportedByServerError extends ContextStoreError {
  /** The version of the server, if it could be learnt. */
  readonly serverVersion: string | undefined;

  constructor(message: string, details: ErrorDetails & { readonly serverVersion?: string | undefined }) {
    super(message, details);
    this.serverVersion = details.serverVersion;
  }
}
/** The call took too long. Whether it happened is not known: repeat it with the same request id. */
export class DeadlineError extends ContextStoreError {}
/** The caller's AbortSignal ended the call. Whether it happened is not known. */
export class CancelledError extends ContextStoreError {}

/**
 * A message that was appended with `wait: false` was refused, or its acknowledgement never came; the error itself is the
 * `cause`, and its code, reason and fields stand here too. `notAppended` begins with the first such message, and has
 * all that were handed over behind it; what a failing `append` was given is the last.
 *
 * @example
 * ```ts
 * try {
 *   await task.flush();
 * } catch (error) {
 *   if (!(error instanceof PipelineError && error.code === "UNAVAILABLE")) throw error;
 *   for await (const _ of task.appendMany(error.notAppended)); // the server is there again
 * }
 * ```
 */
export class PipelineError extends ContextStoreError {
  constructor(error: ContextStoreError, notAppended: readonly AppendInput[]) {
    const { code, reason, fields, metadata, method, address } = error;
    super(`${notAppended.length} messages that were not waited for are not appended: ${error.message}`, {
      code,
      fields,
      metadata,
      cause: error,
      ...(reason !== undefined && { reason }),
      ...(method !== undefined && { method }),
      ...(address !== undefined && { address }),
    });
    withNotAppended(this, notAppended);
  }
}

/** The error, with the messages that are not known to be appended. */
export function withNotAppended<E extends ContextStoreError>(
  error: E,
  notAppended: readonly AppendInput[],
): E {
  return Object.assign(error, { notAppended });
}

/** What a call that was to append a message has thrown: with that message as the last of those that are not appended. */
export function withLast(thrown: unknown, last: AppendInput): unknown {
  if (!(thrown instanceof ContextStoreError)) {
    return thrown;
  }
  const isOther = ({ requestId }: AppendInput) => requestId !== last.requestId;
  if (!(thrown instanceof PipelineError && thrown.cause instanceof ContextStoreError)) {
    return withNotAppended(thrown, [...thrown.notAppended.filter(isOther), last]);
  }
  // Everybody who waits gets the failure, each caller with its own message: they share the list of the others.
  const { notAppended } = thrown;
  const own = new PipelineError(thrown.cause, notAppended);
  Object.defineProperty(own, "notAppended", { get: () => [...notAppended.filter(isOther), last] });
  return own;
}

type ErrorClass = new (message: string, details: ErrorDetails) => ContextStoreError;

const CODES: Readonly<Record<Code, readonly [ErrorCode, ErrorClass]>> = {
  [Code.Canceled]: ["CANCELLED", CancelledError],
  [Code.Unknown]: ["UNKNOWN", ContextStoreError],
  [Code.InvalidArgument]: ["INVALID_ARGUMENT", InvalidRequestError],
  [Code.DeadlineExceeded]: ["DEADLINE_EXCEEDED", DeadlineError],
  [Code.NotFound]: ["NOT_FOUND", NotFoundError],
  [Code.AlreadyExists]: ["ALREADY_EXISTS", PreconditionError],
  [Code.PermissionDenied]: ["PERMISSION_DENIED", AccessError],
  [Code.ResourceExhausted]: ["RESOURCE_EXHAUSTED", ExhaustedError],
  [Code.FailedPrecondition]: ["FAILED_PRECONDITION", PreconditionError],
  [Code.Aborted]: ["ABORTED", ContextStoreError],
  [Code.OutOfRange]: ["OUT_OF_RANGE", InvalidRequestError],
  [Code.Unimplemented]: ["UNIMPLEMENTED", ContextStoreError],
  [Code.Internal]: ["INTERNAL", ContextStoreError],
  [Code.Unavailable]: ["UNAVAILABLE", UnavailableError],
  [Code.DataLoss]: ["DATA_LOSS", ContextStoreError],
  [Code.Unauthenticated]: ["UNAUTHENTICATED", AccessError],
};

/** Reasons whose class does not follow from the code: ABORTED has several, and providers have one of their own. */
const BY_REASON: Readonly<Record<string, ErrorClass>> = {
  LEASE_HELD: LeaseError,
  STALE_LEASE: LeaseError,
  STALE_VIEW: StaleViewError,
  PROVIDER_NOT_CONFIGURED: ProviderError,
  PROVIDER_REFUSED: ProviderError,
  PROVIDER_FAILED: ProviderError,
};

/** What was tried. */
export interface Tried {
  readonly method: string;
  readonly address: string;
}

const triedBy = new WeakMap<object, Tried>();

/** Remembers with an error of the transport what was tried, for `toError`. */
export function noteTried(thrown: unknown, tried: Tried): unknown {
  if (thrown instanceof ContextStoreError) {
    return thrown;
  }
  const error = ConnectError.from(thrown, Code.Internal);
  triedBy.set(error, tried);
  return error;
}

/** What a call failed with, as an error of this package. `signal` is the caller's, not one of ours. */
export function toError(thrown: unknown, signal?: AbortSignal): ContextStoreError {
  const own = ownError(thrown);
  if (own) {
    return own;
  }
  const error = ConnectError.from(thrown, Code.Internal);
  const tried = triedBy.get(error);
  const before = tried ? `${tried.method}: ` : "";
  if (signal?.aborted) {
    const message = `${before}the call was cancelled`;
    return new CancelledError(message, { code: "CANCELLED", cause: signal.reason, ...tried });
  }
  const isOfServer = error.metadata.has("grpc-status");
  if (!isOfServer && isConnectionLoss(error)) {
    const message = `${before}the server${at(tried)} cannot be reached: ${error.rawMessage}`;
    return new UnavailableError(message, { code: "UNAVAILABLE", cause: thrown, ...tried });
  }
  const [code, byCode] = CODES[error.code];
  const info = error.findDetails(ErrorInfoSchema)[0];
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const reason = info?.reason.replace(/^ERROR_REASON_/, "");
  const isLate = !isOfServer && error.code === Code.DeadlineExceeded;
  const message = isLate ? `${before}the server${at(tried)} did not answer in time` : error.rawMessage;
  return new (BY_REASON[reason ?? ""] ?? byCode)(message, {
    code,
    cause: thrown,
    metadata: info?.metadata ?? {},
    fields: error
      .findDetails(BadRequestSchema)
      .flatMap((bad) => bad.fieldViolations.map(({ field, description }) => ({ field, description }))),
    ...(reason === undefined ? {} : { reason }),
    ...(delay === undefined ? {} : { retryAfterMs: Number(delay.seconds) * 1000 + delay.nanos / 1e6 }),
    ...tried,
  });
}

function at(tried: Tried | undefined): string {
  return tried ? ` at ${tried.address}` : "";
}

/** An error of this package, also if the transport has wrapped it. */
function ownError(thrown: unknown): ContextStoreError | undefined {
  const inner = thrown instanceof ConnectError ? thrown.cause : thrown;
  return inner instanceof ContextStoreError ? inner : undefined;
}

/**
 * Whether an error without a status of the server means that the connection broke. The transport reports that
 * under several codes. Errors of the network have a `code`, a reset stream has no cause at all; what remains is
 * a fault of the program, such as a value that cannot be encoded.
 */
function isConnectionLoss(error: ConnectError): boolean {
  if (error.code === Code.DeadlineExceeded) {
    return false;
  }
  let cause = error.cause;
  while (cause instanceof Error) {
    if ("code" in cause && typeof cause.code === "string") {
      return true;
    }
    if (cause.cause === undefined) {
      return false;
    }
    cause = cause.cause;
  }
  return true;
}
