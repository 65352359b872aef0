package platform

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Parse reads the settings from the content of a file and merges them over the
// defaults, field by field. The name is that of the file, for messages: one for
// everything that is wrong, each with its line and its field.
func Parse(name string, content []byte) (Settings, error) {
	root, err := document(name, content)
	if err != nil {
		return Settings{}, err
	}
	settings := Default()
	if root == nil {
		return settings, nil
	}
	r := &reader{name: name}
	if v, ok := given(value{Node: root}); ok {
		r.settings(v, &settings)
	}
	if err := r.err(); err != nil {
		return Settings{}, err
	}
	return settings, nil
}

func (r *reader) settings(v value, settings *Settings) {
	r.fields(v, map[string]func(value){
		"images": func(v value) {
			r.fields(v, map[string]func(value){
				"sidecar": func(v value) { r.image(v, &settings.SidecarImage) },
			})
		},
		"accessControl": func(v value) {
			r.fields(v, map[string]func(value){
				"enabled":    func(v value) { r.flag(v, &settings.AccessControl.Enabled) },
				"proxyImage": func(v value) { r.image(v, &settings.AccessControl.ProxyImage) },
				"caFile":     func(v value) { r.file(v, &settings.AccessControl.CAFile) },
			})
		},
		"updates": func(v value) {
			r.fields(v, map[string]func(value){
				"maxConcurrent": func(v value) { r.count(v, &settings.MaxConcurrentUpdates) },
			})
		},
		"modes": func(v value) {
			known := map[string]func(value){}
			for mode := range settings.Modes {
				known[string(mode)] = func(v value) { r.mode(v, mode, settings) }
			}
			r.fields(v, known)
		},
		"stateSync": func(v value) {
			r.fields(v, map[string]func(value){
				"witnesses": func(v value) { r.witnesses(v, settings) },
			})
		},
	})
}

func (r *reader) image(v value, image *string) {
	text, ok := r.text(v, "ghcr.io/sei-operator/sei-sidecar:v1.0.0")
	if !ok {
		return
	}
	if problem := imageProblem(text); problem != "" {
		r.report(v, "%s", problem)
		return
	}
	*image = text
}

// file is a path. What is relative would depend on where the operator was started.
func (r *reader) file(v value, path *string) {
	text, ok := r.text(v, "/etc/sei/authorities/ca.crt")
	if ok && !filepath.IsAbs(text) {
		r.report(v, "%q is no absolute path: write for example /etc/sei/authorities/ca.crt", text)
		return
	}
	*path = text
}

func (r *reader) count(v value, count *int) {
	number, err := strconv.Atoi(v.Value)
	if v.ShortTag() != "!!int" || err != nil || number < 1 {
		r.report(v, "write a number of at least 1, for example 1")
		return
	}
	*count = number
}

func (r *reader) flag(v value, flag *bool) {
	if v.ShortTag() != "!!bool" {
		r.report(v, "it is %s: write true or false", kindOf(v))
		return
	}
	_ = v.Decode(flag) // the tag says that it is one
}

func (r *reader) mode(v value, mode v1alpha1.Mode, settings *Settings) {
	merged := settings.Modes[mode]
	r.fields(v, map[string]func(value){
		"resources":    func(v value) { r.resources(v, &merged.Resources) },
		"storage":      func(v value) { r.storage(v, &merged.Storage) },
		"nodeSelector": func(v value) { merged.NodeSelector = r.nodeSelector(v) },
		"tolerations":  func(v value) { merged.Tolerations = r.tolerations(v) },
	})
	settings.Modes[mode] = merged
}

func (r *reader) resources(v value, resources *corev1.ResourceRequirements) {
	lines := map[corev1.ResourceName]value{}
	read := func(list corev1.ResourceList) func(value) {
		return func(v value) {
			for _, found := range r.entries(v, "cpu: 4 and memory: 16Gi") {
				name := corev1.ResourceName(found.key)
				if !isResource(found.key) {
					r.report(found.name, "there is no such resource: write cpu, memory, ephemeral-storage, or the full name of another one such as example.com/device")
					continue
				}
				if size, ok := r.quantity(found.value); ok {
					list[name], lines[name] = size, found.value
				}
			}
		}
	}
	r.fields(v, map[string]func(value){"requests": read(resources.Requests), "limits": read(resources.Limits)})
	// Kubernetes refuses such a pod, long after this file was read.
	for name, where := range lines {
		request, limit := resources.Requests[name], resources.Limits[name]
		if !limit.IsZero() && request.Cmp(limit) > 0 {
			r.report(where, "the request for %s is %s and above the limit, %s: write both, in resources.requests and in resources.limits", name, &request, &limit)
		}
	}
}

func isResource(name string) bool {
	if strings.Contains(name, "/") {
		return len(validation.IsQualifiedName(name)) == 0
	}
	return slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) ||
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}

func (r *reader) quantity(v value) (resource.Quantity, bool) {
	if v.ShortTag() != "!!str" && v.ShortTag() != "!!int" && v.ShortTag() != "!!float" {
		r.report(v, "it is %s: write a quantity, for example 16 or 128Gi", kindOf(v))
		return resource.Quantity{}, false
	}
	size, err := resource.ParseQuantity(v.Value)
	switch {
	case err != nil:
		r.report(v, "%q is no quantity: write a number and its unit, for example 16 or 128Gi", v.Value)
		return resource.Quantity{}, false
	case size.Sign() <= 0:
		r.report(v, "%q is not greater than zero: write for example 16 or 128Gi", v.Value)
		return resource.Quantity{}, false
	}
	return size, true
}

func (r *reader) storage(v value, storage *Storage) {
	r.fields(v, map[string]func(value){
		"className": func(v value) {
			name, ok := r.text(v, "fast-ssd")
			if ok && len(validation.IsDNS1123Subdomain(name)) > 0 {
				r.report(v, "%q is no name of a StorageClass: use lower-case letters, digits, '-' and '.'; leave it out for the default class of the cluster", name)
				return
			}
			storage.ClassName = name
		},
		"size": func(v value) {
			if size, ok := r.quantity(v); ok {
				storage.Size = size
			}
		},
	})
}

func (r *reader) witnesses(v value, settings *Settings) {
	for _, found := range r.entries(v, "pacific-1: [rpc-1.example.com:26657, rpc-2.example.com:26657]") {
		if len(validation.IsDNS1123Label(found.key)) > 0 {
			r.report(found.name, "%q is no chain id: write for example pacific-1", found.key)
			continue
		}
		if settings.Witnesses == nil {
			settings.Witnesses = map[string][]string{}
		}
		settings.Witnesses[found.key] = r.chainWitnesses(found.value)
	}
}

func (r *reader) chainWitnesses(v value) []string {
	items, ok := r.list(v, "[rpc-1.example.com:26657, rpc-2.example.com:26657]")
	if !ok {
		return nil
	}
	var servers []string
	for _, item := range items {
		server, ok := r.text(item, "rpc-1.example.com:26657")
		switch {
		case !ok:
		case !isWitness(server):
			r.report(item, "%q is no RPC server: write host:port or http(s)://host:port without a path, for example rpc-1.example.com:26657", server)
		case slices.Contains(servers, server):
			r.report(item, "%s is there twice, but one server is no second witness: write another one", server)
		}
		servers = append(servers, server)
	}
	if len(servers) < 2 {
		r.report(v, "state sync needs two RPC servers or more: write another one")
	}
	return servers
}

// witnessAddress is what the spec of a node allows as well.
var witnessAddress = regexp.MustCompile(`^(https?://)?([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$`)

func isWitness(server string) bool {
	if !witnessAddress.MatchString(server) {
		return false
	}
	_, address, found := strings.Cut(server, "://")
	if !found {
		address = server
	}
	_, port, err := net.SplitHostPort(address)
	number, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && number > 0
}
