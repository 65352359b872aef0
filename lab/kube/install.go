package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/sei-operator/sei-operator/lab/process"
)

// checkInstallable finds out what needs no cluster to be found out.
func checkInstallable(install []string) error {
	for _, path := range install {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("cannot install: %w", err)
		}
	}
	return nil
}

// installManifests brings the caller's manifests into the cluster, in the order they
// were given, so that a later one may use the kinds of an earlier one. It is done
// before the controllers start, because the garbage collector looks for new kinds
// only every 30 seconds, and would collect nothing of them until then.
func (c *Cluster) installManifests(ctx context.Context, apiServer *process.Process) error {
	if len(c.install) == 0 {
		return nil
	}
	// The API server makes it by itself, a moment after it begins to answer.
	if err := c.Until(ctx, apiServer, c.defaultNamespaceExists); err != nil {
		return err
	}
	for _, path := range c.install {
		err := c.whileAllRun(ctx, func(ctx context.Context) error { return c.group.Run(ctx, c.applySpec(path)) })
		if err != nil {
			return fmt.Errorf("cannot install %s: %w", path, err)
		}
		if err := c.Until(ctx, apiServer, c.definedKindsAreKnown); err != nil {
			return fmt.Errorf("cannot install %s: %w", path, err)
		}
	}
	return nil
}

func (c *Cluster) applySpec(path string) process.Spec {
	return process.Spec{
		Name: "kubectl",
		Path: c.Info.Kubectl,
		Log:  c.paths.log("install"),
		// A person's kubectl may have preferences of its own.
		Env: []string{"HOME=" + c.paths.state()},
		Args: []string{
			"--kubeconfig=" + c.paths.kubeconfig(),
			// kubectl remembers which kinds a server has, by the server's address. Addresses
			// are used again by other clusters, so what it remembers goes with this one.
			"--cache-dir=" + c.paths.kubectlCache(),
			"apply", "--server-side", "--filename=" + path,
		},
	}
}

func (c *Cluster) defaultNamespaceExists(ctx context.Context) error {
	_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

// definitions is what we need to know of CustomResourceDefinitions.
type definitions struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Plural string `json:"plural"`
			} `json:"names"`
		} `json:"spec"`
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// definedKindsAreKnown asks as the garbage collector does when it starts.
func (c *Cluster) definedKindsAreKnown(ctx context.Context) error {
	content, err := c.client.Discovery().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").DoRaw(ctx)
	if err != nil {
		return err
	}
	var defined definitions
	if err := json.Unmarshal(content, &defined); err != nil {
		return err
	}
	if len(defined.Items) == 0 {
		return nil
	}
	lists, err := discovery.ServerPreferredResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(c.client.Discovery()))
	if err != nil {
		return err
	}
	known := map[schema.GroupResource]bool{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			known[schema.GroupResource{Group: group.Group, Resource: resource.Name}] = true
		}
	}
	var unknown []error
	for _, d := range defined.Items {
		if !known[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] {
			unknown = append(unknown, fmt.Errorf("%s is not served; conditions: %+v", d.Metadata.Name, d.Status.Conditions))
		}
	}
	return errors.Join(unknown...)
}
