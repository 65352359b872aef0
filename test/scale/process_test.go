package scale_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// program is the operator as it is shipped, with all that it needs to be started.
type program struct {
	r                *rig
	path, kubeconfig string
}

// build builds the operator as it is shipped.
func (r *rig) build() *program {
	r.b.Helper()
	p := &program{r: r, path: filepath.Join(r.b.TempDir(), "sei-operator")}
	build := exec.CommandContext(r.b.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", p.path, "../../cmd/sei-operator")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		r.b.Fatalf("building the operator: %v\n%s", err, output)
	}
	p.kubeconfig = r.operatorKubeconfig()
	return p
}

// operatorKubeconfig is how the operator reaches the API server from outside of it.
func (r *rig) operatorKubeconfig() string {
	r.b.Helper()
	connection := r.cluster.OperatorConfig(r.b)
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{
		Server: connection.Host, CertificateAuthority: connection.CAFile, CertificateAuthorityData: connection.CAData,
	}
	config.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: connection.BearerToken}
	config.Contexts["operator"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "operator"}
	config.CurrentContext = "operator"
	path := filepath.Join(r.b.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		r.b.Fatalf("writing a kubeconfig: %v", err)
	}
	return path
}

// running is a process of the operator.
type running struct {
	b       *testing.B
	command *exec.Cmd
	metrics string
	began   time.Time
	// end ends it with a signal and waits until it is gone.
	end func(os.Signal)
}

// start starts the operator without leader election. It ends with the benchmark.
func (p *program) start() *running {
	b := p.r.b
	b.Helper()
	address := freeAddress(b)
	logs, err := os.Create(filepath.Join(b.TempDir(), "operator.log"))
	if err != nil {
		b.Fatal(err)
	}
	//nolint:noctx // it ends by a signal, before what is left is removed
	command := exec.Command(p.path, "--kubeconfig="+p.kubeconfig, "--leader-election=false",
		"--metrics-address="+address, "--health-address=0", "--watch-namespace="+p.r.namespace)
	command.Stderr = logs
	// It goes when this process goes, however that happens.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	o := &running{b: b, command: command, metrics: "http://" + address + "/metrics", began: time.Now()}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The kernel takes the end of the thread that started it for the end of us.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			ended <- command.Wait()
		}
	}()
	if err := <-started; err != nil {
		b.Fatalf("starting the operator: %v", err)
	}
	var once sync.Once
	o.end = func(signal os.Signal) {
		once.Do(func() {
			select {
			case err := <-ended:
				b.Errorf("the operator ended by itself: %v\n%s", err, tail(logs.Name()))
			default:
				if err := command.Process.Signal(signal); err != nil {
					b.Errorf("ending the operator: %v", err)
				}
				<-ended
			}
			logs.Close() //nolint:errcheck // nothing more comes
		})
	}
	b.Cleanup(func() { o.end(syscall.SIGTERM) })
	return o
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-4000):])
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// gauge reads one of the metrics that have no labels.
func (o *running) gauge(name string) (float64, error) {
	request, err := http.NewRequestWithContext(o.b.Context(), http.MethodGet, o.metrics, nil)
	if err != nil {
		return 0, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", o.metrics, name)
}

// memory is what the operator needs at rest.
type memory struct {
	heap, rss float64 // in bytes
}

// memory waits until the operator is at rest, and then for a collection of garbage. The
// Go runtime makes one every two minutes if nothing else causes it, so it takes that long.
func (o *running) memory() memory {
	o.b.Helper()
	const interval, atRest = 5 * time.Second, 0.1 // of a second of CPU time
	look := time.NewTicker(interval)
	defer look.Stop()
	end := time.Now().Add(patience)
	for used, before := o.cpu(), -interval.Seconds(); used-before > atRest && time.Now().Before(end); {
		<-look.C
		used, before = o.cpu(), used
	}
	for rested := float64(time.Now().Unix()); time.Now().Before(end); <-look.C {
		last, err := o.gauge("go_memstats_last_gc_time_seconds")
		if err != nil || last <= rested {
			continue // it may not listen yet
		}
		heap, err := o.gauge("go_memstats_heap_alloc_bytes")
		if err != nil {
			o.b.Fatal(err)
		}
		return memory{heap: heap, rss: o.rss()}
	}
	o.b.Fatal("the operator never came to rest")
	return memory{}
}

// cpu is the CPU time that the process used, in seconds.
func (o *running) cpu() float64 {
	o.b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.command.Process.Pid))
	if err != nil {
		o.b.Fatal(err)
	}
	p, _ := parseProcess(content)
	return p.cpu
}

// rss is the memory that the process occupies.
func (o *running) rss() float64 {
	o.b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.command.Process.Pid))
	if err != nil {
		o.b.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == "VmRSS:" {
			kilobytes, err := strconv.ParseFloat(string(fields[1]), 64)
			if err != nil {
				o.b.Fatal(err)
			}
			return kilobytes * 1024
		}
	}
	o.b.Fatal("the kernel does not tell how much memory the operator occupies")
	return 0
}
