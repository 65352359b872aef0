package render

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// The containers. Those who watch a pod look for them by these names.
const (
	containerInstall = "install"
	containerInit    = "seid-init"
	ContainerSidecar = "sei-sidecar"
	ContainerProxy   = "rbac-proxy"
	ContainerSeid    = "seid"
)

const (
	// sidecarProgram is found on the path of its image.
	sidecarProgram = "sei-sidecar"
	// runProgram is where install puts the same program for seid's containers.
	runProgram = binPath + "/sei-run"
)

// The environment of our programs.
const (
	envHome       = "SEI_HOME"
	envSocket     = "SEI_SUPERVISOR_SOCKET"
	envMode       = "SEI_NODE_MODE"
	envChainID    = "SEI_CHAIN_ID"
	envMoniker    = "SEI_MONIKER"
	envPort       = "SEI_SIDECAR_PORT"
	envUID        = "SEI_NODE_UID"
	envConfig     = "SEI_NODE_CONFIG"
	envGenesisDir = "SEI_GENESIS_DIR"
	envLoopback   = "SEI_LOOPBACK_DIR"

	envUserHome    = "HOME"
	envTemp        = "TMPDIR"
	envMemoryLimit = "GOMEMLIMIT"
)

// isOurs tells whether a variable must have the value that the operator gives it.
func isOurs(name string) bool {
	return slices.Contains([]string{
		envHome, envSocket, envMode, envChainID, envMoniker, envPort, envUID, envConfig, envGenesisDir, envLoopback, envUserHome,
	}, name)
}

const socketPath = runPath + "/supervisor.sock"

// ownContainer is a container with nothing that it does not need. The root file
// system is read-only in all of them: what they write is in volumes.
func ownContainer(name, image string) *corev1ac.ContainerApplyConfiguration {
	container := corev1ac.Container().WithName(name).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
	if image != "" {
		container.WithImage(image)
	}
	return container
}

func (p pod) sidecarImage() string {
	if sidecar := p.spec.Sidecar; sidecar != nil && sidecar.Image != "" {
		return sidecar.Image
	}
	return p.settings.SidecarImage
}

// installContainer copies the supervisor to where seid's containers find it: their
// image has neither it nor, perhaps, a shell.
func (p pod) installContainer() *corev1ac.ContainerApplyConfiguration {
	return ownContainer(containerInstall, p.sidecarImage()).
		WithCommand(sidecarProgram).
		WithArgs("install", runProgram).
		WithResources(p.sidecarResources()).
		WithVolumeMounts(mount(volumeBin, binPath))
}

// initContainer makes the home complete, once. It sees no key; where keys come from
// Secrets, those that "seid init" makes are thrown away.
func (p pod) initContainer() *corev1ac.ContainerApplyConfiguration {
	keys := p.keys()
	args := []string{"init"}
	if keys.signing != "" {
		args = append(args, "--signing-key-from-secret")
	}
	if keys.node != "" {
		args = append(args, "--node-key-from-secret")
	}
	return ownContainer(containerInit, p.spec.Image).
		WithCommand(runProgram).
		WithArgs(args...).
		WithEnv(environment(map[string]string{
			envUserHome: userHome, envTemp: tempPath, envHome: seidHome,
			envChainID: p.spec.ChainID, envMode: string(p.mode), envMoniker: p.node.Name,
		})...).
		WithResources(requirements(p.seidResources())).
		WithVolumeMounts(homeMounts()...).
		WithVolumeMounts(mount(volumeBin, binPath).WithReadOnly(true))
}

func (p pod) sidecarContainer() *corev1ac.ContainerApplyConfiguration {
	variables := map[string]string{
		envUserHome: userHome, envTemp: tempPath, envHome: seidHome,
		envPort:   strconv.Itoa(int(p.sidecarPort())),
		envUID:    string(p.node.UID),
		envConfig: path.Join(configPath, DocumentEntry),
		envSocket: socketPath,
	}
	container := ownContainer(ContainerSidecar, p.sidecarImage()).
		WithCommand(sidecarProgram).
		WithArgs("serve").
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithResources(p.sidecarResources()).
		// Two minutes to come up; seid's container starts after that.
		WithStartupProbe(execProbe(1, 120, sidecarProgram, "probe", "live")).
		WithLivenessProbe(execProbe(10, 3, sidecarProgram, "probe", "live")).
		WithLifecycle(endsWhenAsked(sidecarProgram)).
		WithVolumeMounts(homeMounts()...).
		WithVolumeMounts(mount(volumeRun, runPath), mount(volumeNodeConfig, configPath).WithReadOnly(true))
	if p.settings.AccessControl.Enabled {
		// Only the proxy beside it may talk to it, and proves that it is the proxy with
		// what is in this directory. Seid cannot read it.
		container.WithArgs("--listen", fmt.Sprintf("127.0.0.1:%d", p.sidecarPort())).
			WithVolumeMounts(mount(volumeLoopback, loopbackPath))
		variables[envLoopback] = loopbackPath
	} else {
		container.WithPorts(containerPort(p.apiPort()))
	}
	if p.genesisConfigMap() != "" {
		variables[envGenesisDir] = genesisPath
		container.WithVolumeMounts(mount(volumeGenesis, genesisPath).WithReadOnly(true))
	}
	keys := p.keys()
	if keys.node != "" {
		// It tells the node's id.
		container.WithVolumeMounts(keyMount(volumeNodeKey, nodeKeyFile))
	}
	if keys.keyring != "" {
		container.WithVolumeMounts(mount(volumeKeyring, keyringPath).WithReadOnly(true))
	}
	return container.WithEnv(environment(variables)...)
}

// seidContainer has no liveness probe: a node that is held, halted or syncing
// answers nothing for hours, and killing it then may ruin its volume.
func (p pod) seidContainer() (*corev1ac.ContainerApplyConfiguration, error) {
	env, err := p.seidEnvironment()
	if err != nil {
		return nil, err
	}
	container := ownContainer(ContainerSeid, p.spec.Image).
		WithCommand(runProgram).
		WithArgs("run", "--", "seid", "start", "--home", seidHome).
		WithArgs(p.spec.ExtraArgs...).
		WithEnv(env...).
		WithResources(requirements(p.seidResources())).
		WithReadinessProbe(execProbe(10, 3, runProgram, "probe", "ready")).
		WithLifecycle(endsWhenAsked(runProgram)).
		WithVolumeMounts(homeMounts()...).
		WithVolumeMounts(mount(volumeBin, binPath).WithReadOnly(true), mount(volumeRun, runPath))
	for _, served := range portsOf(p.mode) {
		container.WithPorts(containerPort(served))
	}
	keys := p.keys()
	if keys.signing != "" {
		container.WithVolumeMounts(keyMount(volumeSigningKey, signingKeyFile))
	}
	if keys.node != "" {
		container.WithVolumeMounts(keyMount(volumeNodeKey, nodeKeyFile))
	}
	return container, nil
}

// seidEnvironment is ours and then what the spec adds. The temporary directory and
// the memory limit are defaults: the spec may say otherwise.
func (p pod) seidEnvironment() ([]*corev1ac.EnvVarApplyConfiguration, error) {
	variables := map[string]string{
		envUserHome: userHome, envTemp: tempPath, envHome: seidHome,
		envSocket: socketPath, envMode: string(p.mode),
	}
	// Go's garbage collector has to know the limit, or it lets the heap grow until
	// the kernel kills seid.
	if limit := p.seidResources().Limits[corev1.ResourceMemory]; limit.Value() >= 10 {
		variables[envMemoryLimit] = strconv.FormatInt(limit.Value()/10*9, 10)
	}
	for _, extra := range p.spec.ExtraEnv {
		delete(variables, extra.Name)
	}
	all := environment(variables)
	for _, extra := range p.spec.ExtraEnv {
		converted, err := convert[corev1ac.EnvVarApplyConfiguration](withDefaults(extra))
		if err != nil {
			return nil, err
		}
		all = append(all, converted)
	}
	return all, nil
}

// withDefaults fills in what the API server fills in: references are compared as a
// whole.
func withDefaults(variable corev1.EnvVar) corev1.EnvVar {
	if variable.ValueFrom == nil {
		return variable
	}
	variable = *variable.DeepCopy()
	if field := variable.ValueFrom.FieldRef; field != nil && field.APIVersion == "" {
		field.APIVersion = "v1"
	}
	return variable
}

// environment is a set of variables in a fixed order.
func environment(variables map[string]string) []*corev1ac.EnvVarApplyConfiguration {
	var all []*corev1ac.EnvVarApplyConfiguration
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		all = append(all, corev1ac.EnvVar().WithName(name).WithValue(variables[name]))
	}
	return all
}

// seidResources are the spec's as a whole, else the mode's: half of the one and half
// of the other would often make a limit below a request.
func (p pod) seidResources() corev1.ResourceRequirements {
	if p.spec.Resources != nil {
		return *p.spec.Resources
	}
	return p.settings.Modes[p.mode].Resources
}

func (p pod) sidecarResources() *corev1ac.ResourceRequirementsApplyConfiguration {
	if sidecar := p.spec.Sidecar; sidecar != nil && sidecar.Resources != nil {
		return requirements(*sidecar.Resources)
	}
	return resources("50m", "64Mi", "256Mi")
}

func resources(cpu, memory, limit string) *corev1ac.ResourceRequirementsApplyConfiguration {
	return corev1ac.ResourceRequirements().
		WithRequests(corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}).
		WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)})
}

func requirements(from corev1.ResourceRequirements) *corev1ac.ResourceRequirementsApplyConfiguration {
	to := corev1ac.ResourceRequirements()
	if len(from.Requests) > 0 {
		to.WithRequests(from.Requests)
	}
	if len(from.Limits) > 0 {
		to.WithLimits(from.Limits)
	}
	return to
}

func containerPort(of port) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(of.name).WithContainerPort(of.number).WithProtocol(corev1.ProtocolTCP)
}

// probeSeconds is above the time that the probes themselves wait, so that they end
// with a reason.
const probeSeconds = 5

func execProbe(period, failures int32, command ...string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithExec(corev1ac.ExecAction().WithCommand(command...)).
		WithTimeoutSeconds(probeSeconds).
		WithPeriodSeconds(period).
		WithSuccessThreshold(1).
		WithFailureThreshold(failures)
}

// endsWhenAsked holds back SIGTERM until it is not lost. A pod that is deleted while one
// of its containers starts would stay for the whole grace period otherwise.
func endsWhenAsked(program string, arguments ...string) *corev1ac.LifecycleApplyConfiguration {
	return corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
		WithExec(corev1ac.ExecAction().WithCommand(program, "probe", "stoppable").WithCommand(arguments...)))
}
