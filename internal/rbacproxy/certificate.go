package rbacproxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// certificate is the one that the proxy shows. It is read again while the proxy runs,
// because it is renewed long before a pod is replaced.
type certificate struct {
	certFile, keyFile string
	every             time.Duration
	clock             clock.PassiveClock
	log               *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	content []byte // of both files
	pair    *tls.Certificate
	broken  string // why the last reading failed
}

// get is called for each new connection, so it never waits for anything but two small
// files. The last good certificate stays in use when they cannot be read: while they
// are being replaced, a certificate and the key of another may be seen. As long as there
// was none nobody can connect, but the proxy runs: seid is started after it, and must not
// be kept down by what only callers need.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); c.pair == nil || c.broken != "" || now.Sub(c.looked) >= c.every {
		c.looked = now
		err := c.read()
		if err != nil && err.Error() != c.broken {
			c.log.Warn("The certificate cannot be read; one that was read before stays in use", "error", err)
		}
		c.broken = ""
		if err != nil {
			c.broken = err.Error()
		}
	}
	if c.pair == nil {
		return nil, errors.New(c.broken)
	}
	return c.pair, nil
}

func (c *certificate) read() error {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return fmt.Errorf("cannot read the certificate: %w", err)
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return fmt.Errorf("cannot read the key of the certificate: %w", err)
	}
	content := append(bytes.Clone(cert), key...)
	if bytes.Equal(content, c.content) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("the certificate in %s: %w", c.certFile, err)
	}
	if c.pair != nil {
		c.log.Info("The certificate was renewed", "notAfter", pair.Leaf.NotAfter)
	}
	c.content, c.pair = content, &pair
	return nil
}
