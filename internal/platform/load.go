package platform

import (
	"fmt"
	"os"
	"strings"
)

// sidecarImageVariable sets the sidecar's image and wins over the file, so that an
// installation can pin the image it was tested with.
const sidecarImageVariable = "SEI_SIDECAR_IMAGE"

// Load reads the settings: the defaults, over them the file at the path, over it
// the environment. An empty path means that there is no file.
func Load(path string, environment func(string) string) (Settings, error) {
	settings := Default()
	if path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return Settings{}, fmt.Errorf("the platform's settings cannot be read: %w", err)
		}
		if settings, err = Parse(path, content); err != nil {
			return Settings{}, err
		}
	}
	if image := environment(sidecarImageVariable); image != "" {
		if problem := imageProblem(image); problem != "" {
			return Settings{}, fmt.Errorf("the environment variable %s: %s", sidecarImageVariable, problem)
		}
		settings.SidecarImage = image
	}
	return settings, nil
}

// imageProblem is what is wrong with an image, or nothing.
func imageProblem(image string) string {
	const example = "write an image reference, for example ghcr.io/sei-operator/sei-sidecar:v1.0.0"
	switch {
	case image == "":
		return "it is empty: " + example + ", or leave it out"
	case strings.ContainsAny(image, " \t\r\n\v\f"):
		return fmt.Sprintf("%q contains white space: %s", image, example)
	default:
		return ""
	}
}
