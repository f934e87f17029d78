// Turns of a model and bodies of requests, with the strict fake of the providers.

package contextstore_test

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// startFake starts `fake-llm`; it ends when its input does.
func startFake(t *testing.T) string {
	t.Helper()
	fake := exec.Command(program(t, "CONTEXTSTORE_FAKE_LLM", filepath.Join(filepath.Dir(binary(t)), "fake-llm")))
	input := must(fake.StdinPipe())(t)
	output := must(fake.StdoutPipe())(t)
	if err := fake.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		fake.Wait()
	})
	line := must(bufio.NewReader(output).ReadString('\n'))(t)
	return "http://" + strings.TrimPrefix(strings.TrimSpace(line), "listening ")
}

func script(t *testing.T, fake, text string) {
	t.Helper()
	response := must(http.Post(fake+"/control", "application/json", strings.NewReader(text)))(t)
	response.Body.Close()
	if response.StatusCode >= 300 {
		t.Fatal(response.Status)
	}
}

// feature: chat
func TestATurnOfAModel(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	prefix := "CONTEXTSTORE_LLM__PROVIDERS__OPENAI__"
	s := startServer(t, "FAKE_API_KEY=sk-test", "CONTEXTSTORE_LLM__RETRIES=0", "CONTEXTSTORE_LLM__PROVIDER=openai",
		prefix+"BASE_URL="+fake+"/v1", prefix+"API_KEY_ENV=FAKE_API_KEY", prefix+"MODEL=fake")
	for _, transport := range []string{"unix", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			task := must(s.connect(transport).StartTask(t.Context(), nil))(t)
			script(t, fake, `{"text": "It rains in 東京."}`)
			pinned := must(contextstore.NewMessage(contextstore.Message{Role: "system", Content: "Be brief."}, contextstore.Pinned()))(t)
			pinned.RequestId = ""
			var text string
			var done *pb.ChatDone
			for event, err := range task.Chat(t.Context(), nil, pinned, user("Weather?")) {
				if err != nil {
					t.Fatal(err)
				}
				text += event.GetText()
				done = event.GetDone()
			}
			if text != "It rains in 東京." || done.GetSeq() != 3 || done.GetFinishReason() != "stop" {
				t.Errorf("%s %v", text, done)
			}

			// The same turn again is told, not asked.
			request := &pb.ChatRequest{RequestId: "turn-1"}
			script(t, fake, `{"text": "Still."}`)
			first := must(collected(task.Chat(t.Context(), request, user("And now?"))))(t)
			again := must(collected(task.Chat(t.Context(), request, user("And now?"))))(t)
			if first[len(first)-1].GetDone().GetDuplicate() || !again[len(again)-1].GetDone().GetDuplicate() {
				t.Errorf("%v %v", first, again)
			}

			_, err := collected(task.Chat(t.Context(), &pb.ChatRequest{Provider: pb.Provider_PROVIDER_ANTHROPIC}))
			isReason(t, err, contextstore.ProviderNotConfigured)
		})
	}
}

// feature: request-body
func TestABodyForAnHTTPClient(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	overBoth(t, func(t *testing.T, _ *server, client *contextstore.Client) {
		task := must(client.StartTask(t.Context(), nil))(t)
		must(task.Append(t.Context(), user("Weather?")))(t)
		request := &pb.RenderContextRequest{Provider: pb.Provider_PROVIDER_OPENAI, Model: "fake"}
		body := must(task.Request(t.Context(), request))(t)
		call := must(http.NewRequestWithContext(t.Context(), http.MethodPost, fake+"/v1/chat/completions", body))(t)
		call.Header.Set("Authorization", "Bearer sk-test")
		call.Header.Set("Content-Type", "application/json")
		script(t, fake, `{"text": "It rains."}`)
		response := must(http.DefaultClient.Do(call))(t)
		answer := must(io.ReadAll(response.Body))(t)
		if response.StatusCode != http.StatusOK || !strings.Contains(string(answer), "It rains.") {
			t.Errorf("%s %s", response.Status, answer)
		}
		request.MaxBytes = 10
		_, err := task.Request(t.Context(), request)
		isReason(t, err, contextstore.RequestTooLarge)
		_, err = task.Request(t.Context(), nil)
		isReason(t, err, contextstore.InvalidField)
	})
}
