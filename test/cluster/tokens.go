package cluster

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

// Token is one of a ServiceAccount, as a kubelet gets it for a pod. Without an audience
// it is good for the API server.
func (c *Cluster) Token(tb testing.TB, namespace, account string, audiences ...string) string {
	tb.Helper()
	named := &corev1.ServiceAccount{}
	named.Namespace, named.Name = namespace, account
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := mustClient(tb, c.admin).SubResource("token").Create(tb.Context(), named, request); err != nil {
		tb.Fatalf("asking for a token of %s/%s: %v", namespace, account, err)
	}
	return request.Status.Token
}

// Aged is a token as it was that much time ago. A token lives for ten minutes at least,
// so one that has expired is signed here, with the key of this control plane.
func (c *Cluster) Aged(tb testing.TB, token string, by time.Duration) string {
	tb.Helper()
	return Aged(tb, c.dir, token, by)
}

// Aged is that of a control plane of the lab, which keeps its files in a directory.
func Aged(tb testing.TB, dir, token string, by time.Duration) string {
	tb.Helper()
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("making an old token: %v", err)
		}
	}
	parts := strings.Split(token, ".")
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	check(err)
	claims := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.UseNumber()
	check(decoder.Decode(&claims))
	for _, name := range []string{"iat", "nbf", "exp"} {
		at, err := claims[name].(json.Number).Int64()
		check(err)
		claims[name] = at - int64(by.Seconds())
	}
	content, err = json.Marshal(claims)
	check(err)
	encoded, err := os.ReadFile(filepath.Join(dir, "state", "pki", "service-accounts.key"))
	check(err)
	block, _ := pem.Decode(encoded)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	check(err)
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(content)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	check(err)
	signature := make([]byte, 64) // both numbers, of 32 bytes each
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
