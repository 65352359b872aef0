package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// envConfig makes this test binary a supervisor.
const envConfig = "SUPERVISOR_TEST_CONFIG"

func TestMain(m *testing.M) {
	if text := os.Getenv(envConfig); text != "" {
		os.Exit(supervise(text))
	}
	fakeseid.Main()
	goleak.VerifyTestMain(m)
}

// supervise is what the command line does.
func supervise(text string) int {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	//nolint:forbidigo // this is the main function of a process
	code, err := New(cfg).Run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}
