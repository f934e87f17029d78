// Package contextstore is the client of contextstore, the sidecar that keeps an LLM agent's whole context on disk.
//
//	client, err := contextstore.Connect("unix:contexts/contextstore.sock")
//	task, err := client.StartTask(ctx, &pb.StartTaskRequest{User: "ada"})
//	ack, err := task.Append(ctx, contextstore.Message{Role: "user", Content: "Fix the failing test, please."})
//	body, err := task.Request(ctx, &pb.StreamRequestRequest{Provider: "openai", Model: "gpt-5"})
//	response, err := http.Post(url, "application/json", body)
//
// It is a thin layer over the generated stubs of the package contextstorev1 (pb above), whose messages it takes and
// gives. Of a request, the task and the lease are filled in, and the request id unless there is one; nil stands for an
// empty one. What a call does is said at its method in contextstorev1.
//
// # Deadlines and retries
//
// A call ends with its context. A unary call whose context has no deadline gets one of 30 seconds ([WithTimeout]). A call that
// could not reach the server is made again, under the same request id, so that it happens once: for 10 seconds
// ([WithRetryFor]), within its deadline. Streams that are read go on where they broke.
//
// # Errors
//
// Every error of a call is an [*Error]. Decide by its [Reason], which errors.Is knows, or by its code:
//
//	if errors.Is(err, contextstore.LeaseHeld) { … }
//
// # Leases
//
// A task that was started is held: nobody else changes it. The client renews the lease in the background until the task is
// paused or has ended, or the task or the client is closed.
//
// # Hooks
//
// [Task.OnComplete] and [Task.OnStop] have functions called, in order, before the status of a task changes. One that fails is
// logged with log/slog and the task ends all the same, unless [Task.SetHookErrors] says otherwise.
package contextstore
