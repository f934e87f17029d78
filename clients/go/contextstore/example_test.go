// Examples of the documentation; they are compiled.

package contextstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

func Example() {
	ctx := context.Background()
	client, err := contextstore.Connect("unix:contexts/contextstore.sock")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	task, err := client.StartTask(ctx, &pb.StartTaskRequest{
		User: "ada", Config: &pb.TaskConfig{LlmProvider: "openai", Model: "gpt-5"},
	})
	if err != nil {
		log.Fatal(err)
	}
	// On disk when Append returns.
	ack, err := task.Append(ctx, contextstore.Message{Role: "user", Content: "Fix the failing test, please."})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("message %d; the context is %.1f%% full\n", ack.GetSeq(), 100*ack.GetPressure().GetRatio())
	for message, err := range task.CurrentMessages(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(message))
	}
	if _, err := task.Complete(ctx, "Fixed it."); err != nil {
		log.Fatal(err)
	}
}

// The server asks the model, with the key that it has.
func ExampleTask_Chat() {
	var task *contextstore.Task // of StartTask
	for event, err := range task.Chat(context.Background(), nil, contextstore.Message{Role: "user", Content: "Go on."}) {
		if err != nil {
			log.Fatal(err)
		}
		switch event := event.GetEvent().(type) {
		case *pb.ChatResponse_Text:
			fmt.Print(event.Text)
		case *pb.ChatResponse_Done:
			fmt.Println("\nmessage", event.Done.GetSeq())
		}
	}
}

// The agent asks the model, and the body comes straight from disk.
func ExampleTask_Request() {
	var task *contextstore.Task // of StartTask
	ctx := context.Background()
	body, err := task.Request(ctx, &pb.RenderContextRequest{
		Provider: pb.Provider_PROVIDER_ANTHROPIC, Model: "claude-opus-4-5", ParamsJson: `{"max_tokens": 4000}`,
	})
	if err != nil {
		log.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("MODEL_URL"), body)
	if err != nil {
		log.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
}

// Many messages, without waiting for each.
func ExampleTask_AppendMany() {
	var task *contextstore.Task // of StartTask
	steps := func(yield func(any) bool) {
		for n := range 10_000 {
			if !yield(contextstore.Message{Role: "assistant", Content: fmt.Sprintf("Step %d.", n)}) {
				return
			}
		}
	}
	for _, err := range task.AppendMany(context.Background(), steps) {
		if err != nil {
			log.Fatal(err)
		}
	}
}

// A message of more than text, pinned; any type that encodes to a chat message will do.
func ExampleTask_Append() {
	var task *contextstore.Task // of StartTask
	message := json.RawMessage(`{"role": "user", "content": [{"type": "text", "text": "Never touch the table payments."}]}`)
	if _, err := task.Append(context.Background(), message, contextstore.Pinned()); err != nil {
		log.Fatal(err)
	}
}

// Messages that are not waited for: what could not be saved is reported, and can be appended again.
func ExampleTask_AppendLater() {
	var task *contextstore.Task // of StartTask
	ctx := context.Background()
	for n := range 1000 {
		step := contextstore.Message{Role: "assistant", Content: fmt.Sprintf("Step %d.", n)}
		if err := task.AppendLater(ctx, step); err != nil {
			log.Fatal(err)
		}
	}
	var failure *contextstore.Error
	if err := task.Flush(ctx); errors.As(err, &failure) {
		for _, message := range failure.NotAppended {
			if _, err := task.Append(ctx, message); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// The task of an issue, whichever run of the agent has begun it.
func ExampleClient_ResumeOrStartTask() {
	var client *contextstore.Client // of Connect
	key := &pb.TaskKey{TaskSource: "github", Owner: "octo", Repo: "hello", TaskType: "issue", TaskId: "7"}
	task, err := client.ResumeOrStartTask(context.Background(), &pb.StartTaskRequest{Key: key, User: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.UUID, "goes on:", task.Resumed)
}

// A private server on a temporary directory, which ends with the program.
func ExampleSpawn() {
	server, err := contextstore.Spawn(context.Background(), "")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	task, err := server.Client().StartTask(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.UUID)
}

// The server of a directory, started by the first program that needs it.
func ExampleConnectOrSpawn() {
	client, err := contextstore.ConnectOrSpawn(context.Background(), "contexts")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// A tool that the agent runs itself.
func ExampleTask_Tool() {
	var task *contextstore.Task // of StartTask
	call := contextstore.ToolCall{Name: "run_tests", ID: "call-1", Arguments: map[string]string{"path": "."}}
	result, err := task.Tool(context.Background(), call, func(ctx context.Context) (any, error) {
		// Kept whole, whatever its size; the model is shown a part of it.
		return exec.CommandContext(ctx, "go", "test", "./...").CombinedOutput()
	})
	fmt.Println(result.Duration, result.Content, err)
}

// An agent: a model, and Go functions that it calls.
func ExampleTask_Tools() {
	var task *contextstore.Task // of StartTask
	ctx := context.Background()
	type readFile struct {
		Path string `json:"path" description:"The file, from the root of the repository"`
	}
	tools, err := task.Tools(contextstore.NewTool("read_file", "Reads a file.", func(_ context.Context, asked readFile) (any, error) {
		return os.Open(asked.Path)
	}))
	if err != nil {
		log.Fatal(err)
	}
	messages := []any{contextstore.Message{Role: "user", Content: "What does main.go do?"}}
	for answered := 1; answered > 0; messages = nil {
		var done *pb.ChatDone
		for event, err := range task.Chat(ctx, &pb.ChatRequest{ToolsJson: tools.OpenAI()}, messages...) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(event.GetText())
			done = event.GetDone()
		}
		if answered, err = tools.Answer(ctx, done.GetMessageJson()); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleError() {
	var client *contextstore.Client // of Connect
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := client.StartTask(ctx, &pb.StartTaskRequest{TaskUuid: "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10"})
	var failure *contextstore.Error
	switch {
	case errors.Is(err, contextstore.LeaseHeld) && errors.As(err, &failure):
		fmt.Println("somebody works on it:", failure.Metadata["instance_id"])
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("too late")
	}
}

// A large output of a tool: the model sees a part of it, and can read the rest by its ref.
func ExampleOutputs_Put() {
	var task *contextstore.Task // of StartTask
	ctx := context.Background()
	file, err := os.Open("build.log")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	put, err := task.Outputs().Put(ctx, &pb.PutToolOutputHeader{ToolName: "make", ToolCallId: "call-1", Append: true}, file)
	if err != nil {
		log.Fatal(err)
	}
	for line, err := range task.Outputs().Grep(ctx, &pb.GrepToolOutputRequest{RefId: put.GetRef().GetId(), Pattern: "error"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line.GetLineNumber(), line.GetText())
	}
}

// Called before the task is completed, in this process.
func ExampleTask_OnComplete() {
	var task *contextstore.Task // of StartTask
	task.OnComplete("say so", func(ctx context.Context, ending contextstore.Ending) error {
		fmt.Println(ending.Task.UUID, "will be", ending.Status)
		return nil
	})
	if _, err := task.Complete(context.Background(), "Fixed it."); err != nil {
		log.Fatal(err)
	}
}

// The provider of a configuration file.
func ExampleParseEnum() {
	provider, err := contextstore.ParseEnum[pb.Provider]("provider", "openai_responses")
	fmt.Println(provider, err)
	_, err = contextstore.ParseEnum[pb.Provider]("provider", "openia")
	fmt.Println(err)
	// Output:
	// PROVIDER_OPENAI_RESPONSES <nil>
	// contextstore: INVALID_FIELD: provider: "openia" is unknown; use openai, openai_responses, anthropic, ollama or lmstudio
}
