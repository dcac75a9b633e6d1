package envtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// system is the operator's own namespace, operator its StatefulSet and its service account.
	system   = "memcached-system"
	operator = "memcached-operator"
)

// replica is one process of the operator.
type replica struct {
	w       *world
	name    string
	config  *rest.Config // what it may do, it may do with this
	process *exec.Cmd
	log     bytes.Buffer // of both outputs; read once ended is closed
	ended   chan struct{}
}

// start makes the Pod of a replica and runs a program in its name. There is no StatefulSet controller
// and no kubelet here.
func (w *world) start(program string, ordinal int) *replica {
	w.t.Helper()
	var set appsv1.StatefulSet
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: system, Name: operator}, &set); err != nil {
		w.t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: system, Name: fmt.Sprintf("%s-%d", operator, ordinal), Labels: set.Spec.Template.Labels,
		},
		Spec: set.Spec.Template.Spec,
	}
	w.create(pod)
	r := &replica{w: w, name: pod.Name, config: w.actAs(pod), ended: make(chan struct{})}
	r.process = exec.Command(filepath.Join(programs, program), "--kubeconfig", r.writeKubeconfig(),
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
	r.process.Env = append(os.Environ(), "POD_NAME="+pod.Name)
	r.process.Stdout, r.process.Stderr = &r.log, &r.log
	if err := r.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.process.Wait() // stop looks at how it ended
	}()
	w.t.Cleanup(func() {
		r.signal(syscall.SIGKILL)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", r.name, r.log.String())
		}
	})
	return r
}

// actAs is the administrator acting for the service account in a Pod.
func (w *world) actAs(pod *corev1.Pod) *rest.Config {
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + system + ":" + pod.Spec.ServiceAccountName,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + system},
		Extra: map[string][]string{
			"authentication.kubernetes.io/pod-name": {pod.Name},
			"authentication.kubernetes.io/pod-uid":  {string(pod.UID)},
		},
	}
	return config
}

func (r *replica) writeKubeconfig() string {
	r.w.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: r.w.gateway.open(r.w, r.name, r.config)}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(r.w.t.TempDir(), r.name)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		r.w.t.Fatal(err)
	}
	return path
}

// signal ends the process and waits for that.
func (r *replica) signal(signal os.Signal) {
	_ = r.process.Process.Signal(signal) // it may have ended
	<-r.ended
}

// stop ends the replica as the kubelet does first, and expects it to end well.
func (r *replica) stop() {
	r.w.t.Helper()
	r.signal(syscall.SIGTERM)
	if code := r.process.ProcessState.ExitCode(); code != 0 {
		r.w.t.Errorf("%s ended with %d after SIGTERM", r.name, code)
	}
}
