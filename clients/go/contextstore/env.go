// What the environment says of the server: where it is, the token, whom to trust.

package contextstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// dataDir is the server's data directory if nothing says otherwise.
const dataDir = "contexts"

// FromEnv connects as the environment says: CONTEXTSTORE_ADDRESS, CONTEXTSTORE_TOKEN, CONTEXTSTORE_TOKEN_FILE, and
// CONTEXTSTORE_DATA_DIR for what the others leave open: its contextstore.sock, or else where its addresses say, and its
// token, which is sent only while a server holds the directory and listens at the address. Without any of them, the data
// directory is contexts. For tls:HOST:PORT, the files CONTEXTSTORE_CA_FILE, CONTEXTSTORE_CERT_FILE and CONTEXTSTORE_KEY_FILE
// say whom to trust, and what the client shows of itself.
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
	where, dir := get("CONTEXTSTORE_ADDRESS"), get("CONTEXTSTORE_DATA_DIR")
	if where == "" {
		if dir == "" {
			dir = dataDir
		}
		where = addressIn(dir)
	}
	if token := get("CONTEXTSTORE_TOKEN"); token != "" {
		return where, []Option{WithToken(token)}
	}
	if file := get("CONTEXTSTORE_TOKEN_FILE"); file != "" {
		return where, []Option{WithTokenFile(file)}
	}
	// A token of this machine is for a server of this machine.
	if dir != "" && strings.HasPrefix(where, "tcp:") {
		return where, []Option{withDataDir(dir)}
	}
	return where, nil
}

// inside is the path of a file of a data directory, whose own path stays as it was given.
func inside(dir, name string) string {
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// addressIn is where the server of a data directory is: at its usual socket, also if it is not there yet, unless a server
// that does not listen there has written down where it does.
func addressIn(dir string) string {
	usual := inside(dir, "contextstore.sock")
	if _, err := os.Stat(usual); err != nil {
		if address, ok := preferred(writtenAddresses(dir)); ok {
			return address
		}
	}
	return "unix:" + usual
}

// preferred is the first Unix socket of what a server has written down, or else the first address of TCP.
func preferred(addresses []string) (string, bool) {
	for _, kind := range []string{"unix:", "tcp:"} {
		for _, address := range addresses {
			if strings.HasPrefix(address, kind) {
				return address, true
			}
		}
	}
	return "", false
}

// writtenAddresses are where the server of a data directory has written down that it listens.
func writtenAddresses(dir string) []string {
	text, err := os.ReadFile(inside(dir, "addresses"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
