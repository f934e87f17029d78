// What tests outside of the package need of its inside.

package contextstore

// AsError makes an Error of what gRPC gave.
var AsError = asError

// Endpoint is what an address dials.
func Endpoint(text string) (string, error) {
	parsed, err := parseAddress(text)
	if err != nil {
		return "", err
	}
	network, where, err := parsed.endpoint()
	return network + " " + where, err
}

// FromEnvOf is where FromEnv would connect.
func FromEnvOf(get func(string) string) (address, token, tokenFile, dataDir string) {
	address, options := fromEnv(get)
	var s settings
	for _, option := range options {
		option(&s)
	}
	return address, s.token, s.tokenFile, s.dataDir
}

// WithDataDir takes the token of the server that runs on a data directory.
var WithDataDir = withDataDir

// NewTaskUUID makes an id.
var NewTaskUUID = newTaskUUID
