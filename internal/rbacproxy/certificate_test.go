package rbacproxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// pair makes a certificate with a serial number, and its key, as PEM.
func pair(t *testing.T, serial int64) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func TestACertificateIsReadAgain(t *testing.T) {
	const every = 10 * time.Second
	dir, log, clock := t.TempDir(), &bytes.Buffer{}, clocktesting.NewFakePassiveClock(time.Now())
	c := &certificate{
		certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"),
		every: every, clock: clock, log: slog.New(slog.NewTextHandler(log, nil)),
	}
	for range 2 {
		if _, err := c.get(nil); err == nil || !strings.Contains(err.Error(), "tls.crt") {
			t.Errorf("without a certificate: %v", err)
		}
	}
	put := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(when string, want int64) {
		t.Helper()
		got, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		if serial := got.Leaf.SerialNumber.Int64(); serial != want {
			t.Errorf("%s the certificate %d is shown, not %d", when, serial, want)
		}
	}
	cert, key := pair(t, 1)
	put("tls.crt", cert)
	put("tls.key", key)
	shows("at first", 1)
	log.Reset()

	cert, key = pair(t, 2)
	put("tls.crt", cert)
	clock.SetTime(clock.Now().Add(every))
	shows("with the key of another", 1)
	shows("still", 1)
	if warnings := strings.Count(log.String(), "cannot be read"); warnings != 1 {
		t.Errorf("it was said %d times: %s", warnings, log)
	}
	put("tls.key", key)
	shows("as soon as they go together", 2)

	cert, key = pair(t, 3)
	put("tls.crt", cert)
	put("tls.key", key)
	shows("before the time", 2)
	clock.SetTime(clock.Now().Add(every))
	shows("when it is time", 3)

	if err := os.Remove(filepath.Join(dir, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(every))
	shows("when it is gone", 3)
}
