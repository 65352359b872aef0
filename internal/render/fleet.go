package render

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// FleetManager is the field manager with which a fleet applies its nodes and what goes
// with them. It is not the one of the nodes: each owns what it declares, and no more.
const FleetManager = "sei-operator-fleet"

// FleetNodeName is the name of a node of a fleet.
func FleetNodeName(fleet *v1alpha1.SeiNodeDeployment, ordinal int) string {
	return fleet.Name + "-" + strconv.Itoa(ordinal)
}

// FleetOf are the name of the fleet that a node of this name may belong to, and its
// ordinal there.
func FleetOf(node string) (fleet string, ordinal int, ok bool) {
	cut := strings.LastIndexByte(node, '-')
	if cut <= 0 {
		return "", 0, false
	}
	ordinal, err := strconv.Atoi(node[cut+1:])
	if err != nil || ordinal < 0 || strconv.Itoa(ordinal) != node[cut+1:] {
		return "", 0, false
	}
	return node[:cut], ordinal, true
}

// FleetServiceName is the name of the Service in front of a fleet.
func FleetServiceName(fleet *v1alpha1.SeiNodeDeployment) string { return fleet.Name + "-internal" }

// FleetBudgetName is the name of the PodDisruptionBudget of a fleet.
func FleetBudgetName(fleet *v1alpha1.SeiNodeDeployment) string { return fleet.Name }

// fleetPorts are what one may ask any node of a fleet. What keeps a state on one node, a
// websocket for example, is asked for at that node.
var fleetPorts = []int32{portRPC, portREST, portEVMRPC}

// FleetLabels are on everything that belongs to a fleet, and select it.
func FleetLabels(fleet *v1alpha1.SeiNodeDeployment) map[string]string {
	return map[string]string{v1alpha1.LabelDeployment: fleet.Name}
}

// FleetOwners make Kubernetes delete an object after its fleet, and are there only when the
// policy wants just that. Where nodes outlive their fleet they never have an owner: a
// deletion in the foreground, which some tools use for everything, would delete them before
// the fleet could let them go. What belongs to a fleet is told by its label.
func FleetOwners(fleet *v1alpha1.SeiNodeDeployment) []*metav1ac.OwnerReferenceApplyConfiguration {
	if fleet.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete {
		return nil
	}
	return []*metav1ac.OwnerReferenceApplyConfiguration{metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("SeiNodeDeployment").
		WithName(fleet.Name).
		WithUID(fleet.UID).
		WithController(true)}
}

// FleetService leads to the nodes of a fleet that are ready; nil in a mode that serves
// nobody.
func FleetService(fleet *v1alpha1.SeiNodeDeployment) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithSelector(FleetLabels(fleet))
	for _, served := range portsOf(fleet.Spec.Template.Spec.Mode()) {
		if slices.Contains(fleetPorts, served.number) {
			spec.WithPorts(corev1ac.ServicePort().WithName(served.name).WithPort(served.number).WithProtocol(corev1.ProtocolTCP))
		}
	}
	if len(spec.Ports) == 0 {
		return nil
	}
	return corev1ac.Service(FleetServiceName(fleet), fleet.Namespace).
		WithLabels(FleetLabels(fleet)).
		WithOwnerReferences(FleetOwners(fleet)...).
		WithSpec(spec)
}

// FleetEndpoint says where the fleet as a whole is found; nil in a mode that serves
// nobody.
func FleetEndpoint(fleet *v1alpha1.SeiNodeDeployment) *v1alpha1.Endpoint {
	if FleetService(fleet) == nil {
		return nil
	}
	at := func(number int) string {
		return "http://" + net.JoinHostPort(fmt.Sprintf("%s.%s.svc", FleetServiceName(fleet), fleet.Namespace), strconv.Itoa(number))
	}
	return &v1alpha1.Endpoint{TendermintRPC: at(portRPC), TendermintREST: at(portREST), EVMJSONRPC: at(portEVMRPC)}
}

// FleetBudget keeps those who drain machines within the budget of the fleet. It says how
// many pods have to stay and not how many may go: Kubernetes would count the latter from
// the pods that are there, each of which has a StatefulSet of its own, so that one that is
// gone already would not count. A pod that is not ready may always be moved: it serves
// nobody, and must not keep a machine from being drained.
func FleetBudget(fleet *v1alpha1.SeiNodeDeployment, minAvailable int) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(FleetBudgetName(fleet), fleet.Namespace).
		WithLabels(FleetLabels(fleet)).
		WithOwnerReferences(FleetOwners(fleet)...).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMinAvailable(intstr.FromInt32(int32(minAvailable))).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(FleetLabels(fleet))).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
}
