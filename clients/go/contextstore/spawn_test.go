// Servers that a program starts: its own, which ends with it, and one that programs share.

package contextstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contextstore/contextstore/clients/go/contextstore"
	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

// isAlive tells whether there is a process that has not ended.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// shortDir is a directory whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := must(os.MkdirTemp("", "contextstore-go-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func spawn(t *testing.T, dir string, options ...contextstore.Option) *contextstore.Server {
	t.Helper()
	options = append([]contextstore.Option{contextstore.WithBinary(binary(t)), contextstore.WithStartTimeout(deadline)}, options...)
	server := must(contextstore.Spawn(t.Context(), dir, options...))(t)
	t.Cleanup(func() { server.Stop() })
	return server
}

// feature: spawn
func TestAPrivateServer(t *testing.T) {
	t.Parallel()
	server := spawn(t, "", contextstore.WithServerEnv("CONTEXTSTORE_LEASE__TTL=7s"))
	info := must(server.Client().ServerInfo(t.Context()))(t)
	if info.GetDataDir() != server.DataDir || int(info.GetProcessId()) != server.PID() || info.GetLeaseTtl().AsDuration() != 7*time.Second {
		t.Errorf("%v", info)
	}
	task := must(server.Client().StartTask(t.Context(), nil))(t)
	handOver(t, task, 0, 100)
	if err := errors.Join(server.Stop(), server.Stop()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(server.DataDir); !os.IsNotExist(err) || isAlive(server.PID()) {
		t.Errorf("%v", err)
	}

	// A directory that was given stays, and what was handed over is in it. Any name will do, also a long one.
	for _, name := range []string{"a %41#b?c,d=ü ", strings.Repeat("long", 40)} {
		dir := filepath.Join(shortDir(t), name)
		first := spawn(t, dir)
		task := must(first.Client().StartTask(t.Context(), nil))(t)
		handOver(t, task, 0, 300)
		if err := first.Stop(); err != nil {
			t.Error(err)
		}
		again := spawn(t, dir)
		// The lease of the first is its own.
		taken := must(again.Client().StartTask(t.Context(), &pb.StartTaskRequest{TaskUuid: task.UUID}))(t)
		if got := view(t, taken); taken.Created || !slices.Equal(got, count(300)) {
			t.Errorf("%s: %d messages", name, len(got))
		}
		again.Stop()
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	start := time.Now()
	_, err := contextstore.Spawn(t.Context(), "", contextstore.WithBinary(binary(t)), contextstore.WithServerArguments("--nonsense"))
	if err == nil || !strings.Contains(err.Error(), "--nonsense") || time.Since(start) > deadline/2 {
		t.Errorf("%v", err)
	}
	_, err = contextstore.ConnectOrSpawn(t.Context(), shortDir(t), contextstore.WithBinary(binary(t)), contextstore.WithServerArguments("--nonsense"))
	if err == nil || !strings.Contains(err.Error(), "--nonsense") {
		t.Errorf("%v", err)
	}
	_, err = contextstore.Spawn(t.Context(), "", contextstore.WithBinary("/no/such/program"))
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("%v", err)
	}
	// Another one has the directory.
	server := spawn(t, "")
	_, err = contextstore.Spawn(t.Context(), server.DataDir, contextstore.WithBinary(binary(t)))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", server.PID())) {
		t.Errorf("%v", err)
	}
	if _, err := contextstore.Connect(server.Address, contextstore.WithBinary("x")); err == nil {
		t.Error("Connect starts a server")
	}
	must(server.Client().ServerInfo(t.Context()))(t)
}

// spawning is a helper that has a server of its own; it says its process and its directory, and then does what it is to do.
func spawning(then func(*contextstore.Server)) func() {
	return func() {
		server, err := contextstore.Spawn(context.Background(), os.Getenv("DIR"), contextstore.WithBinary(os.Getenv("BINARY")))
		if err != nil {
			panic(err)
		}
		defer server.Stop()
		then(server)
	}
}

func init() {
	helpers["spawn"] = spawning(func(server *contextstore.Server) {
		fmt.Println(server.PID())
		time.Sleep(deadline)
	})
	helpers["interrupted"] = spawning(func(server *contextstore.Server) {
		task, err := server.Client().StartTask(context.Background(), nil)
		if err != nil {
			panic(err)
		}
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		fmt.Println(server.PID())
		<-interrupted
		_, err = task.Append(context.Background(), user("Interrupted."))
		if err == nil {
			_, err = task.Pause(context.Background())
		}
		fmt.Println(task.UUID, err)
	})
}

// startSpawning starts a helper in a process group of its own, and gives the process of its server.
func startSpawning(t *testing.T, name, dir string) (*os.Process, int, *bufio.Reader) {
	t.Helper()
	command := helperCommand(t, name, "BINARY="+binary(t), "DIR="+dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	output := bufio.NewReader(must(command.StdoutPipe())(t))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	line := must(output.ReadString('\n'))(t)
	return command.Process, must(strconv.Atoi(strings.TrimSpace(line)))(t), output
}

// feature: spawn-dies-with-parent
func TestASpawnedServerEndsWithAProgramThatIsKilled(t *testing.T) {
	t.Parallel()
	program, server, _ := startSpawning(t, "spawn", shortDir(t))
	if !isAlive(server) {
		t.Fatal("it is not there")
	}
	program.Kill()
	eventually(t, "the server ends", func() bool { return !isAlive(server) })
}

// The server that the program has started kills it before it does anything else.
func TestAProgramThatIsKilledAtOnceLeavesNoServer(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	killer, noted := filepath.Join(dir, "killer"), filepath.Join(dir, "pid")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >'%s'\nkill -9 $PPID\nexec '%s' \"$@\"\n", noted, binary(t))
	if err := os.WriteFile(killer, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	program := helperCommand(t, "spawn", "BINARY="+killer, "DIR="+filepath.Join(dir, "data"))
	if err := program.Run(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("%v", err)
	}
	server := must(strconv.Atoi(strings.TrimSpace(string(must(os.ReadFile(noted))(t)))))(t)
	eventually(t, "the server ends", func() bool { return !isAlive(server) })
	// And it was there.
	must(os.Stat(filepath.Join(dir, "data", "tasks.db")))(t)
}

// feature: spawn-ctrl-c
func TestCtrlCLeavesTheServerToTheProgram(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	program, server, output := startSpawning(t, "interrupted", dir)
	if err := syscall.Kill(-program.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var uuid, problem string
	fmt.Sscan(string(must(output.ReadBytes('\n'))(t)), &uuid, &problem)
	if problem != "<nil>" {
		t.Fatalf("%s", problem)
	}
	eventually(t, "the server ends", func() bool { return !isAlive(server) })
	again := spawn(t, dir)
	task := must(again.Client().ResumeTask(t.Context(), uuid))(t)
	if got := view(t, task); !slices.Equal(got, []string{"Interrupted."}) {
		t.Errorf("%v", got)
	}
}

func init() {
	helpers["share"] = func() {
		client, err := contextstore.ConnectOrSpawn(context.Background(), os.Getenv("DIR"), contextstore.WithBinary(os.Getenv("BINARY")),
			contextstore.WithServerArguments("--stop-when-idle", os.Getenv("IDLE")))
		if err != nil {
			panic(err)
		}
		defer client.Close()
		info, err := client.ServerInfo(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println(info.GetProcessId())
		io.Copy(io.Discard, os.Stdin)
	}
}

// idleTimePasses waits until a server of its own, which has lost its last client now, has ended after so long.
func idleTimePasses(t *testing.T, idle string) {
	t.Helper()
	witness := must(contextstore.ConnectOrSpawn(t.Context(), shortDir(t), contextstore.WithBinary(binary(t)),
		contextstore.WithServerArguments("--stop-when-idle", idle)))(t)
	pid := int(must(witness.ServerInfo(t.Context()))(t).GetProcessId())
	if err := witness.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "a server without clients ends", func() bool { return !isAlive(pid) })
}

// feature: connect-or-spawn
func TestProgramsShareAServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a %41#b?c,d=ü ", strings.Repeat("long", 40)} {
		t.Run(name[:5], func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(shortDir(t), name)
			var mu sync.Mutex
			servers := map[string]int{}
			var started, done sync.WaitGroup
			var inputs []io.Closer
			for range 3 {
				started.Add(1)
				command := helperCommand(t, "share", "BINARY="+binary(t), "DIR="+dir, "IDLE=1s")
				input := must(command.StdinPipe())(t)
				inputs = append(inputs, input)
				output := bufio.NewReader(must(command.StdoutPipe())(t))
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				done.Go(func() {
					line, err := output.ReadString('\n')
					mu.Lock()
					servers[strings.TrimSpace(line)]++
					mu.Unlock()
					started.Done()
					if err := errors.Join(err, command.Wait()); err != nil {
						t.Error(err)
					}
				})
			}
			started.Wait()
			if len(servers) != 1 {
				t.Fatalf("%v", servers)
			}
			var pid int
			for text := range servers {
				pid = must(strconv.Atoi(text))(t)
			}
			client := must(contextstore.ConnectOrSpawn(t.Context(), dir, contextstore.WithBinary("/not/needed")))(t)
			if info := must(client.ServerInfo(t.Context()))(t); int(info.GetProcessId()) != pid {
				t.Errorf("%v", info)
			}
			task := must(client.StartTask(t.Context(), nil))(t)
			handOver(t, task, 0, 100)
			if mode := must(os.Stat(filepath.Join(dir, "server.log")))(t).Mode().Perm(); mode != 0o600 {
				t.Errorf("%v", mode)
			}
			// The programs end, and the one that has started the server with them; this client goes on, though it does nothing for
			// longer than the server waits for clients.
			for _, input := range inputs {
				input.Close()
			}
			done.Wait()
			idleTimePasses(t, "1s")
			if !isAlive(pid) {
				t.Fatal("the server has ended, and it has a client")
			}
			must(task.Append(t.Context(), user("100")))(t)
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			eventually(t, "the server ends", func() bool { return !isAlive(pid) })
			// Whoever comes later gets another one, with everything in it.
			later := must(contextstore.ConnectOrSpawn(t.Context(), dir, contextstore.WithBinary(binary(t)),
				contextstore.WithServerArguments("--stop-when-idle", "1s")))(t)
			defer later.Close()
			if got := view(t, later.Task(task.UUID)); !slices.Equal(got, count(101)) {
				t.Errorf("%d messages", len(got))
			}
		})
	}
}

// Nobody makes a call, and the connection breaks: the server must not take that for the end of its last client.
func TestAClientOfASharedServerStaysConnected(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	share := func() *contextstore.Client {
		client := must(contextstore.ConnectOrSpawn(t.Context(), dir, contextstore.WithBinary(binary(t)),
			contextstore.WithServerArguments("--stop-when-idle", "2s")))(t)
		t.Cleanup(func() { client.Close() })
		return client
	}
	first := share()
	pid := int(must(first.ServerInfo(t.Context()))(t).GetProcessId())
	// From now on the server says that it is behind a proxy.
	p := startProxy(t, &server{unix: "unix:" + filepath.Join(dir, "contextstore.sock")})
	if err := os.WriteFile(filepath.Join(dir, "addresses"), []byte(p.address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := share()
	isConnected := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.conns) > 0
	}
	if !isConnected() {
		t.Fatal("it is not connected through the proxy")
	}
	p.cut()
	eventually(t, "it is connected again", isConnected)
	first.Close()
	idleTimePasses(t, "2s")
	if info := must(second.ServerInfo(t.Context()))(t); int(info.GetProcessId()) != pid {
		t.Errorf("%v", info)
	}
	second.Close()
	eventually(t, "the server ends", func() bool { return !isAlive(pid) })
}
