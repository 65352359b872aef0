package images

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootCertificates are Mozilla's, as pinned in go.mod, and not those of the machine
// that happens to build the image.
func rootCertificates() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		// A file cannot say for what a root must not be trusted, so these stay out.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}
