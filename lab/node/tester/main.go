// Command tester is what runs in the pods of the node's test.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tester:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "write":
		return os.WriteFile(arguments[1], []byte("written by an init container\n"), 0o600)
	case len(arguments) == 3 && arguments[0] == "serve":
		return serve(arguments[1], arguments[2])
	case len(arguments) == 2 && arguments[0] == "get":
		return get(arguments[1])
	default:
		return fmt.Errorf("unknown arguments: %q", arguments)
	}
}

// serve answers with what is in a file.
func serve(address, file string) error {
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
			content, err := os.ReadFile(file)
			if err != nil {
				http.Error(response, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = response.Write(content)
		}),
	}
	return server.ListenAndServe()
}

func get(url string) error {
	client := &http.Client{Timeout: 10 * time.Second}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
