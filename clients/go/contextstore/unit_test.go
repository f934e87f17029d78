// What needs no server: addresses, the environment, errors, ids.

package contextstore_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	here := must(os.Getwd())(t)
	for text, endpoint := range map[string]string{
		"unix:/run/a.sock":                 "unix /run/a.sock",
		"unix:contexts/a.sock":             "unix " + here + "/contexts/a.sock",
		"unix:/a%41/b#c?d,e f/ü.sock":      "unix /a%41/b#c?d,e f/ü.sock",
		"unix:a/../b.sock":                 "unix " + here + "/a/../b.sock",
		"unix:" + strings.Repeat("a", 107): "unix " + strings.Repeat("a", 107),
		"tcp:127.0.0.1:50551":              "tcp 127.0.0.1:50551",
		"tcp:[::1]:50551":                  "tcp [::1]:50551",
	} {
		if found, err := contextstore.Endpoint(text); err != nil || found != endpoint {
			t.Errorf("%s is %s (%v), not %s", text, found, err, endpoint)
		}
	}
	for _, text := range []string{"", "unix:", "127.0.0.1:1", "tcp:127.0.0.1", "tcp:127.0.0.1:0", "tcp:a:70000", "tcp::1", "http://a:1", "unix:" + strings.Repeat("a", 108)} {
		if found, err := contextstore.Endpoint(text); err == nil {
			t.Errorf("%q passes for an address: %s", text, found)
		}
	}
}

func TestATokenDoesNotLeaveTheMachine(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{
		"tcp:127.0.0.1:1": false, "tcp:[::1]:1": false, "tcp:localhost:1": false, "tcp:10.0.0.1:1": true, "tcp:example.test:1": true,
	} {
		client, err := contextstore.Connect(address, contextstore.WithToken("secret"))
		if (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			client.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the token: %v", err)
		}
	}
	if _, err := contextstore.Connect("tcp:127.0.0.1:1", contextstore.WithToken("two words")); err == nil {
		t.Error("a token with a space is taken")
	}
}

func TestTheEnvironmentSaysWhereTheServerIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := func(env map[string]string, address, token, file, dataDir string) {
		t.Helper()
		a, b, c, d := contextstore.FromEnvOf(func(name string) string { return env[name] })
		if a != address || b != token || c != file || d != dataDir {
			t.Errorf("%v gives %q %q %q %q", env, a, b, c, d)
		}
	}
	check(nil, "unix:contexts/contextstore.sock", "", "", "")
	check(map[string]string{"CONTEXTSTORE_ADDRESS": "unix:/a"}, "unix:/a", "", "", "")
	// A directory that nobody has named is not looked into, and never for a server of another machine.
	check(map[string]string{"CONTEXTSTORE_ADDRESS": "tcp:[::1]:1"}, "tcp:[::1]:1", "", "", "")
	check(map[string]string{"CONTEXTSTORE_ADDRESS": "tcp:[::1]:1", "CONTEXTSTORE_DATA_DIR": "d"}, "tcp:[::1]:1", "", "", "d")
	check(map[string]string{"CONTEXTSTORE_ADDRESS": "tls:a:1", "CONTEXTSTORE_DATA_DIR": "d"}, "tls:a:1", "", "", "")
	check(map[string]string{"CONTEXTSTORE_ADDRESS": "tcp:[::1]:1", "CONTEXTSTORE_TOKEN": "t"}, "tcp:[::1]:1", "t", "", "")
	check(map[string]string{"CONTEXTSTORE_ADDRESS": "tcp:[::1]:1", "CONTEXTSTORE_TOKEN_FILE": "f"}, "tcp:[::1]:1", "", "f", "")
	inDir := map[string]string{"CONTEXTSTORE_DATA_DIR": dir}
	check(inDir, "unix:"+dir+"/contextstore.sock", "", "", "")
	listed := "tcp:127.0.0.1:7\n"
	os.WriteFile(filepath.Join(dir, "addresses"), []byte(listed), 0o600)
	check(inDir, "tcp:127.0.0.1:7", "", "", dir)
	os.WriteFile(filepath.Join(dir, "addresses"), []byte(listed+"unix:/b\n"), 0o600)
	check(inDir, "unix:/b", "", "", "")
	os.WriteFile(filepath.Join(dir, "contextstore.sock"), nil, 0o600)
	check(inDir, "unix:"+dir+"/contextstore.sock", "", "", "")
}

func TestTheTokenGoesToARunningServerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "token"), []byte("secret\n"), 0o600)
	// Somebody listens where the server did.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := contextstore.Connect("tcp:"+listener.Addr().String(), contextstore.WithDataDir(dir), contextstore.WithRetryFor(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.ServerInfo(t.Context())
	var failure *contextstore.Error
	if !errors.As(err, &failure) || failure.Code != codes.Unavailable || !strings.Contains(failure.Error(), "it has no running server") {
		t.Errorf("%v", err)
	}
}

func TestErrorsSayWhy(t *testing.T) {
	t.Parallel()
	sent, err := status.New(codes.Aborted, "held").WithDetails(
		&errdetails.ErrorInfo{Reason: "ERROR_REASON_LEASE_HELD", Domain: "contextstore", Metadata: map[string]string{"holder": "a"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "seq", Description: "too small"}}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)},
	)
	if err != nil {
		t.Fatal(err)
	}
	var found *contextstore.Error
	if !errors.As(fmt.Errorf("outer: %w", contextstore.AsError(sent.Err())), &found) {
		t.Fatal("it is not found")
	}
	if found.Code != codes.Aborted || found.Metadata["holder"] != "a" || found.RetryAfter != 1500*time.Millisecond ||
		!slices.Equal(found.Fields, []contextstore.Field{{Name: "seq", Problem: "too small"}}) {
		t.Errorf("%+v", found)
	}
	if !errors.Is(found, contextstore.LeaseHeld) || errors.Is(found, contextstore.StaleLease) {
		t.Error("the reason is not known")
	}
	if status.Code(found) != codes.Aborted || found.Error() != "contextstore: LEASE_HELD: held" {
		t.Errorf("%v", found)
	}
	late := contextstore.AsError(status.FromContextError(context.DeadlineExceeded).Err())
	if !errors.Is(late, context.DeadlineExceeded) || errors.Is(late, context.Canceled) {
		t.Error("the end of the context is not known")
	}
}

// Every reason of the protocol has a constant, and no other has.
func TestEveryReasonHasAName(t *testing.T) {
	t.Parallel()
	file := must(parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0))(t)
	var named []string
	ast.Inspect(file, func(node ast.Node) bool {
		if value, ok := node.(*ast.ValueSpec); ok {
			text, _ := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			named = append(named, "ERROR_REASON_"+text)
		}
		return true
	})
	var all []string
	for number, name := range pb.ErrorReason_name {
		if number != 0 {
			all = append(all, name)
		}
	}
	slices.Sort(named)
	slices.Sort(all)
	if !slices.Equal(named, all) {
		t.Errorf("%v are named, not %v", named, all)
	}
}

func TestTaskIDsSortByTime(t *testing.T) {
	t.Parallel()
	first := contextstore.NewTaskUUID()
	time.Sleep(2 * time.Millisecond)
	second := contextstore.NewTaskUUID()
	if len(first) != 36 || first[14] != '7' || !strings.ContainsRune("89ab", rune(first[19])) || first >= second {
		t.Errorf("%s %s", first, second)
	}
}

func TestMessagesAreTakenInManyForms(t *testing.T) {
	t.Parallel()
	for _, message := range []any{
		contextstore.Message{Role: "user", Content: "hi"},
		`{"role":"user","content":"hi"}`,
		[]byte(`{"role":"user","content":"hi"}`),
		struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}{"user", "hi"},
		&pb.NewMessage{Body: &pb.NewMessage_Json{Json: `{"role":"user","content":"hi"}`}},
	} {
		made, err := contextstore.NewMessage(message, contextstore.Pinned(), contextstore.OutputRef("out-1"), contextstore.RequestID("r"))
		if err != nil {
			t.Fatal(err)
		}
		if made.GetJson() != `{"role":"user","content":"hi"}` || !made.GetPinned() || made.GetOutputRef() != "out-1" || made.GetRequestId() != "r" {
			t.Errorf("%T: %v", message, made)
		}
	}
	if _, err := contextstore.NewMessage(make(chan int)); err == nil {
		t.Error("a channel passes for a message")
	}
}

func TestTheReadmeNamesEveryMethod(t *testing.T) {
	t.Parallel()
	readme := string(must(os.ReadFile("../README.md"))(t))
	for _, kind := range []reflect.Type{
		reflect.TypeFor[*contextstore.Client](), reflect.TypeFor[*contextstore.Task](),
		reflect.TypeFor[contextstore.Outputs](), reflect.TypeFor[*contextstore.Compaction](),
		reflect.TypeFor[*contextstore.Server](), reflect.TypeFor[*contextstore.Tools](),
	} {
		for at := range kind.NumMethod() {
			name := kind.Method(at).Name
			// Those of the message in a Compaction are of the protocol.
			_, isOfMessage := reflect.TypeFor[*pb.BeginCompactionResponse_Begun]().MethodByName(name)
			if !isOfMessage && !regexp.MustCompile(`\b`+name+`\b`).MatchString(readme) {
				t.Errorf("%v.%s", kind, name)
			}
		}
	}
}
