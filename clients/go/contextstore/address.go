// Where the server is and how a caller shows who it is: addresses, the environment.

package contextstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// address is one, taken apart.
type address struct {
	// Of a Unix socket; empty for TCP.
	path string
	// For TCP, with the port.
	host string
	// Whether TCP is encrypted.
	tls bool
}

// parseAddress takes unix:/path, tcp:host:port and tls:host:port.
func parseAddress(text string) (address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok && path != "" {
		if strings.HasPrefix(path, "///") {
			path = path[2:]
		}
		return address{path: path}, nil
	}
	kind, rest, _ := strings.Cut(text, ":")
	if kind == "tcp" || kind == "tls" {
		host, port, err := net.SplitHostPort(rest)
		number, bad := strconv.ParseUint(port, 10, 16)
		if err == nil && bad == nil && number > 0 && host != "" && !strings.ContainsAny(host, "/ ") {
			return address{host: rest, tls: kind == "tls"}, nil
		}
	}
	return address{}, fmt.Errorf(
		"contextstore: address %q is not of the form unix:/path/of/contextstore.sock or tcp:127.0.0.1:PORT or tls:HOST:PORT", text)
}

// target is the address as gRPC takes it.
func (a address) target() (string, error) {
	if a.path == "" {
		// Not resolved by gRPC, which would ask a proxy.
		return "passthrough:///" + a.host, nil
	}
	path, err := filepath.Abs(a.path)
	if err != nil {
		return "", fmt.Errorf("contextstore: %w", err)
	}
	return "unix://" + path, nil
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

// dataDir is the server's data directory if nothing says otherwise.
const dataDir = "contexts"

// FromEnv connects as the environment says: CONTEXTSTORE_ADDRESS, CONTEXTSTORE_TOKEN, CONTEXTSTORE_TOKEN_FILE, and
// CONTEXTSTORE_DATA_DIR for what the others leave open: its contextstore.sock, or else where its addresses say, and its
// token, which is sent only while a server holds the directory. For tls:HOST:PORT, the files CONTEXTSTORE_CA_FILE, CONTEXTSTORE_CERT_FILE and CONTEXTSTORE_KEY_FILE say whom to
// trust, and what the client shows of itself.
func FromEnv(options ...Option) (*Client, error) {
	where, found := fromEnv(os.Getenv)
	if strings.HasPrefix(where, "tls:") {
		config, err := tlsFromEnv(os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("contextstore: %w", err)
		}
		found = append(found, WithTLS(config))
	}
	return Connect(where, append(found, options...)...)
}

func tlsFromEnv(get func(string) string) (*tls.Config, error) {
	config := &tls.Config{}
	if file := get("CONTEXTSTORE_CA_FILE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CONTEXTSTORE_CA_FILE: there is no certificate in %s", file)
		}
	}
	cert, key := get("CONTEXTSTORE_CERT_FILE"), get("CONTEXTSTORE_KEY_FILE")
	if cert != "" || key != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func fromEnv(get func(string) string) (string, []Option) {
	dir := get("CONTEXTSTORE_DATA_DIR")
	if dir == "" {
		dir = dataDir
	}
	where := get("CONTEXTSTORE_ADDRESS")
	if where == "" {
		where = addressIn(dir)
	}
	if token := get("CONTEXTSTORE_TOKEN"); token != "" {
		return where, []Option{WithToken(token)}
	}
	if file := get("CONTEXTSTORE_TOKEN_FILE"); file != "" {
		return where, []Option{WithTokenFile(file)}
	}
	if !strings.HasPrefix(where, "unix:") {
		return where, []Option{withDataDir(dir)}
	}
	return where, nil
}

// addressIn is where the server of a data directory is: at its usual socket, also if it is not there yet, unless a server
// that does not listen there has written down where it does.
func addressIn(dir string) string {
	usual := filepath.Join(dir, "contextstore.sock")
	if _, err := os.Stat(usual); err != nil {
		listed, _ := os.ReadFile(filepath.Join(dir, "addresses"))
		for _, kind := range []string{"unix:", "tcp:"} {
			for line := range strings.Lines(string(listed)) {
				if strings.HasPrefix(line, kind) {
					return strings.TrimSpace(line)
				}
			}
		}
	}
	return "unix:" + usual
}
