// Package access is the way in to nodes as the operator sees it: its own certificate
// authority, the certificates that it gives to the nodes' access proxies, and whether
// those proxies may ask the API server what they have to ask.
//
// The operator is the only one who has to trust this authority. So a new one signs from
// the moment that it is there, and the one before it is trusted until it expires.
package access

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/sei-operator/sei-operator/internal/plan"
)

const (
	// authorityLife is short enough for a rotation to be nothing special.
	authorityLife = 365 * 24 * time.Hour
	// certificateLife is how long the certificate of a node is valid.
	certificateLife = plan.LongestRenewal / 2 * 3
	// backdated is how far the clock of whoever looks at a certificate may be behind.
	backdated = plan.ClockTolerance
)

// renewal is when two thirds of a life are over: what is left is time to notice that
// the renewal does not work.
func renewal(from, until time.Time) time.Time { return from.Add(until.Sub(from) / 3 * 2) }

// The entries of the Secret with the authority.
const (
	entryCertificate = "ca.crt"
	entryKey         = "ca.key"
	entryPrevious    = "previous.crt"
)

// Authority signs the certificates of nodes. It is a value: a rotation makes another.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// previous are those before it, which are trusted until they expire.
	previous []*x509.Certificate
}

// NewAuthority makes an authority.
func NewAuthority(now time.Time) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	number, err := serial()
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "sei-operator " + now.UTC().Format(time.DateOnly)},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, err
	}
	certificate, err := x509.ParseCertificate(raw)
	return Authority{certificate: certificate, key: key}, err
}

func serial() (*big.Int, error) { return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) }

// ParseAuthority reads what Data wrote.
func ParseAuthority(data map[string][]byte) (Authority, error) {
	certificates, err := parseCertificates(data[entryCertificate])
	if err != nil {
		return Authority{}, fmt.Errorf("its entry %s: %w", entryCertificate, err)
	}
	block, _ := pem.Decode(data[entryKey])
	if block == nil {
		return Authority{}, fmt.Errorf("its entry %s holds no key", entryKey)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return Authority{}, fmt.Errorf("its entry %s holds no EC key", entryKey)
	}
	a := Authority{certificate: certificates[0], key: key, previous: certificates[1:]}
	if !key.PublicKey.Equal(a.certificate.PublicKey) || !a.certificate.IsCA {
		return Authority{}, fmt.Errorf("the key in %s is not that of an authority in %s", entryKey, entryCertificate)
	}
	if len(data[entryPrevious]) > 0 {
		earlier, err := parseCertificates(data[entryPrevious])
		if err != nil {
			return Authority{}, fmt.Errorf("its entry %s: %w", entryPrevious, err)
		}
		a.previous = append(a.previous, earlier...)
	}
	return a, nil
}

func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("it holds something else than a certificate")
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	return all, nil
}

// Data is what a Secret holds of the authority.
func (a Authority) Data() (map[string][]byte, error) {
	key, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{
		entryCertificate: encode("CERTIFICATE", a.certificate.Raw),
		entryKey:         encode("EC PRIVATE KEY", key),
	}
	for _, earlier := range a.previous {
		data[entryPrevious] = append(data[entryPrevious], encode("CERTIFICATE", earlier.Raw)...)
	}
	return data, nil
}

func encode(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

// Current is the authority to be used from now on, and whether it is another one. One
// that begins later was made by a clock that was ahead, and would be of no use until then.
func (a Authority) Current(now time.Time) (Authority, bool, error) {
	due := renewal(a.certificate.NotBefore.Add(backdated), a.certificate.NotAfter)
	if !now.Before(a.certificate.NotBefore) && now.Before(due) {
		return a, false, nil
	}
	next, err := NewAuthority(now)
	return next.After(a, now), true, err
}

// After is an authority that comes after another, which is trusted until it expires.
func (a Authority) After(earlier Authority, now time.Time) Authority {
	kept := a.previous
	a.previous = nil
	for _, certificate := range append(append(kept, earlier.certificate), earlier.previous...) {
		if !certificate.NotAfter.Before(now) && !a.trusts(certificate) {
			a.previous = append(a.previous, certificate)
		}
	}
	return a
}

func (a Authority) trusts(certificate *x509.Certificate) bool {
	for _, known := range append([]*x509.Certificate{a.certificate}, a.previous...) {
		if bytes.Equal(known.Raw, certificate.Raw) {
			return true
		}
	}
	return false
}

// ID tells this authority from those before it.
func (a Authority) ID() string {
	sum := sha256.Sum256(a.certificate.Raw)
	return hex.EncodeToString(sum[:8])
}

// trust adds to a pool who is trusted.
func (a Authority) trust(pool *x509.CertPool) {
	pool.AddCert(a.certificate)
	for _, earlier := range a.previous {
		pool.AddCert(earlier)
	}
}

// Certificate is what the access proxy of a node proves with that it is that node.
type Certificate struct {
	Certificate, Key []byte // PEM
	// Renewal is when to issue another one.
	Renewal time.Time
}

// Issue makes a certificate for a name.
func (a Authority) Issue(name string, now time.Time) (Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	number, err := serial()
	if err != nil {
		return Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "sei-node"}, DNSNames: []string{name},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Certificate{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		Certificate: encode("CERTIFICATE", raw), Key: encode("EC PRIVATE KEY", private),
		Renewal: renewal(now, template.NotAfter).Truncate(time.Second),
	}, nil
}
