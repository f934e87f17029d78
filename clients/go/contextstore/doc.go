// Package contextstore is the client of contextstore, the sidecar that keeps an LLM agent's whole context on disk.
//
//	client, err := contextstore.ConnectOrSpawn(ctx, "contexts") // or Connect("unix:contexts/contextstore.sock")
//	defer client.Close()
//	task, err := client.StartTask(ctx, &pb.StartTaskRequest{User: "ada"})
//	ack, err := task.Append(ctx, contextstore.Message{Role: "user", Content: "Fix the failing test, please."})
//	body, err := task.Request(ctx, &pb.RenderContextRequest{Provider: pb.Provider_PROVIDER_OPENAI, Model: "gpt-5"})
//	response, err := http.Post(url, "application/json", body)
//
// It is a thin layer over the generated stubs of the package contextstorev1 (pb above), whose messages it takes and
// gives. Of a request, the task and the lease are filled in, and the request id unless there is one; nil stands for an
// empty one. What a call does is said at its method in contextstorev1. Values of enums have short names, such as openai, which
// [ParseEnum] and [EnumName] convert.
//
// # Messages that are not waited for
//
// [Task.AppendLater] hands a message over and returns. The message is then in the log exactly once, in order, or a later call
// reports it: NotAppended of the [*Error] holds what is not known to be in the log, and appending that again stores each
// exactly once. Every call of the task that reads or changes it comes behind what was handed over. Go runs nothing when a
// program ends, so close the client, which waits for what is on its way:
//
//	defer client.Close()
//
// os.Exit and log.Fatal skip that.
//
// # Deadlines and retries
//
// A call ends with its context. A unary call whose context has no deadline gets one of 30 seconds ([WithTimeout]). A call that
// could not reach the server is made again, under the same request id, so that it happens once: for 10 seconds
// ([WithRetryFor]), within its deadline. Streams that are read go on where they broke. A client that has never reached its
// server does not wait for it: the first call fails with [ErrNoServer], which says where it looked. [Client.WaitUntilReady]
// waits.
//
// # Errors
//
// Every error of a call is an [*Error], unless it is one of the caller's own reader, tool or hook. Decide by its [Reason], which
// errors.Is knows, or by its code:
//
//	if errors.Is(err, contextstore.LeaseHeld) { … }
//
// A method that an older server does not have fails with [ErrUnsupportedByServer]. Reasons, events and fields that a newer server
// has are passed on as they are.
//
// # Leases
//
// A task that was started is held: nobody else changes it. The client renews the lease in the background until the task is
// paused or has ended, or the task or the client is closed. [Task.LeaseLost] tells if somebody else has taken it.
//
// # Tools
//
// [Task.Tool] runs a tool, records the call and answers it in the log. [Task.Tools] describes Go functions to a model, and runs
// them when it calls them.
//
// # Hooks
//
// [Task.OnComplete] and [Task.OnStop] have functions called, in order, before the status of a task changes. One that fails is
// logged with log/slog and the task ends all the same, unless [Task.SetHookErrors] says otherwise.
package contextstore
