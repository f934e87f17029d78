// Why a call was refused: the reasons of error_reason.proto, by names that are easy to write.

package contextstore

// Reason is why a call was refused. It is an error, so that errors.Is(err, contextstore.LeaseHeld) tells. A newer server may
// know more of them. pb.ErrorReason says what each means and whether a retry helps.
type Reason string

// Error implements error.
func (r Reason) Error() string {
	return string(r)
}

// The reasons. Which calls give them is said at the methods of pb.ContextStoreClient and pb.ToolOutputsClient.
const (
	// A field of the request cannot be accepted.
	InvalidField Reason = "INVALID_FIELD"
	// There is no task with the id.
	TaskNotFound Reason = "TASK_NOT_FOUND"
	// A task was to be started under an id that is taken by one that is not running.
	TaskExists Reason = "TASK_EXISTS"
	// The task has no message with the seq.
	MessageNotFound Reason = "MESSAGE_NOT_FOUND"
	// The status of the task does not allow the call.
	WrongStatus Reason = "WRONG_STATUS"
	// Another client holds the lease of the task.
	LeaseHeld Reason = "LEASE_HELD"
	// The lease_generation of the call is not the newest.
	StaleLease Reason = "STALE_LEASE"
	// The request_id was used for a call with other content.
	RequestIDReused Reason = "REQUEST_ID_REUSED"
	// The view was rewritten since the caller looked, so what was computed on it is out of date.
	StaleView Reason = "STALE_VIEW"
	// Another rewrite of the task is being made; there is one at a time.
	RewriteInFlight Reason = "REWRITE_IN_FLIGHT"
	// No compaction is in force that could be undone.
	NothingToUndo Reason = "NOTHING_TO_UNDO"
	// Acknowledged data of the task is damaged, so it was set aside.
	Quarantined Reason = "QUARANTINED"
	// The task was written by a newer version and holds something this one does not know.
	NewerFormat Reason = "NEWER_FORMAT"
	// Writing or syncing the task's log failed.
	WriteFailed Reason = "WRITE_FAILED"
	// The disk or a quota is full.
	DiskFull Reason = "DISK_FULL"
	// The whole store takes no writes.
	ReadOnly Reason = "READ_ONLY"
	// Another process uses the data directory.
	Locked Reason = "LOCKED"
	// The data directory cannot be used as it is.
	BadDataDir Reason = "BAD_DATA_DIR"
	// A file holds bytes that are not what was written.
	Damaged Reason = "DAMAGED"
	// The catalog cannot be read or written.
	CatalogFailed Reason = "CATALOG"
	// The disk failed at something else; what was tried is named.
	IOFailed Reason = "IO"
	// The call came over TCP without a valid token.
	Unauthenticated Reason = "UNAUTHENTICATED"
	// The call came over the Unix socket from another user.
	Forbidden Reason = "FORBIDDEN"
	// A request or a message is larger than the server takes.
	TooLarge Reason = "TOO_LARGE"
	// The bytes of a request are not a message of the protocol; the field is named where it is known.
	Malformed Reason = "MALFORMED"
	// The server is at a limit of what it does at once.
	Overloaded Reason = "OVERLOADED"
	// The task or the store is as large as it may be.
	QuotaExceeded Reason = "QUOTA_EXCEEDED"
	// The server is stopping.
	Stopping Reason = "STOPPING"
	// The reader of a stream took nothing for too long, so it was closed.
	Stalled Reason = "STALLED"
	// The task has no plan.
	PlanNotFound Reason = "PLAN_NOT_FOUND"
	// The task has no summary.
	SummaryNotFound Reason = "SUMMARY_NOT_FOUND"
	// The server failed in a way that it should not.
	InternalError Reason = "INTERNAL"
	// The body of a request to a provider is larger than it may be.
	RequestTooLarge Reason = "REQUEST_TOO_LARGE"
	// The server cannot ask that provider.
	ProviderNotConfigured Reason = "PROVIDER_NOT_CONFIGURED"
	// The provider does not take the request.
	ProviderRefused Reason = "PROVIDER_REFUSED"
	// The provider could not be reached, failed, was too slow, or broke off in the middle of an answer.
	ProviderFailed Reason = "PROVIDER_FAILED"
	// The limit of the task's model is not known, and `compact` does not guess.
	LimitUnknown Reason = "LIMIT_UNKNOWN"
	// The token of a compaction is unknown, or it has expired.
	CompactionNotFound Reason = "COMPACTION_NOT_FOUND"
	// A summary is empty, not smaller than what it stands for, or leaves out what it has to name.
	SummaryRefused Reason = "SUMMARY_REFUSED"
	// The task has neither a summary nor a plan that another could take over.
	NothingToInherit Reason = "NOTHING_TO_INHERIT"
	// Of the context there is nothing that an agent could summarise.
	NothingToSummarize Reason = "NOTHING_TO_SUMMARIZE"
	// A message that is to be pinned is not in the view any more.
	NotInView Reason = "NOT_IN_VIEW"
	// The task has no output with the ref.
	OutputNotFound Reason = "OUTPUT_NOT_FOUND"
	// The stored output is not what was put.
	OutputDamaged Reason = "OUTPUT_DAMAGED"
	// The parts of an output do not come in order.
	OutputMalformed Reason = "OUTPUT_MALFORMED"
)
