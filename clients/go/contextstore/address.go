// Where the server is: addresses, and how they are dialled.

package contextstore

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// longestSocket is how many bytes the path of a Unix socket may have: sockaddr_un has 108, the last of them 0.
const longestSocket = 107

// address is one, taken apart.
type address struct {
	// As the caller wrote it.
	text string
	// Of a Unix socket, as it was written; empty for TCP.
	path string
	// For TCP, with the port.
	host string
	// Whether TCP is encrypted.
	tls bool
}

// parseAddress takes unix:PATH, whose path is literal, tcp:HOST:PORT and tls:HOST:PORT.
func parseAddress(text string) (address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok && path != "" {
		if strings.ContainsRune(path, 0) {
			return address{}, fmt.Errorf("contextstore: the path of address %q has a zero byte", text)
		}
		return address{text: text, path: path}, nil
	}
	kind, rest, _ := strings.Cut(text, ":")
	if kind == "tcp" || kind == "tls" {
		host, port, err := net.SplitHostPort(rest)
		number, bad := strconv.ParseUint(port, 10, 16)
		if err == nil && bad == nil && number > 0 && host != "" && !strings.ContainsAny(host, "/ ") {
			return address{text: text, host: rest, tls: kind == "tls"}, nil
		}
	}
	return address{}, fmt.Errorf(
		"contextstore: address %q is not of the form unix:/path/of/contextstore.sock or tcp:127.0.0.1:PORT or tls:HOST:PORT", text)
}

// endpoint returns the network and the address as package net dials them. The path of a socket is made absolute: the program
// may change its working directory.
func (a address) endpoint() (network, where string, err error) {
	if a.path == "" {
		return "tcp", a.host, nil
	}
	path := a.path
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return "", "", fmt.Errorf("contextstore: %w", err)
		}
		// Not cleaned: a/../b is not b if a is a symbolic link.
		path = here + string(filepath.Separator) + path
	}
	if len(path) > longestSocket {
		// The relative path may still fit; package net takes an @ at its beginning for a name without a file.
		if path = a.path; path[0] == '@' {
			path = "./" + path
		}
	}
	if len(path) > longestSocket {
		return "", "", fmt.Errorf(
			"contextstore: the path of a Unix socket has at most %d bytes, and that of %q has %d; let the server listen at a shorter one",
			longestSocket, a.text, len(path))
	}
	return "unix", path, nil
}

// dialer returns what connects to an endpoint, whatever name gRPC has for it.
func dialer(network, where string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, where)
	}
}

// isLocal tells whether what is sent there stays on this machine.
func (a address) isLocal() bool {
	if a.path != "" {
		return true
	}
	host, _, _ := net.SplitHostPort(a.host)
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}

// isSame tells whether the server wrote this address of TCP down as one that it listens on.
func (a address) isSame(written string) bool {
	other, err := parseAddress(written)
	if err != nil || other.path != "" || other.tls {
		return false
	}
	mine, port, _ := net.SplitHostPort(a.host)
	theirs, theirPort, _ := net.SplitHostPort(other.host)
	if port != theirPort {
		return false
	}
	if strings.EqualFold(mine, "localhost") {
		// The name of any address of this machine's own.
		return other.isLocal()
	}
	ip, bad := netip.ParseAddr(mine)
	theirIP, worse := netip.ParseAddr(theirs)
	if bad == nil && worse == nil {
		return ip == theirIP
	}
	return strings.EqualFold(mine, theirs)
}
