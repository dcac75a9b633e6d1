package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/redis-operator/test/localcluster/internal/space"
	"k8s.io/client-go/kubernetes"
)

// planeName is the control plane's host name. There is no Node object of that name.
const planeName = "control-plane"

// A Node is declared lost after nodeGrace, and its Pods are evicted evictionDelay later, in place of
// 50 s and 300 s: stories about a lost Node would else take six minutes.
const (
	nodeGrace     = 20 * time.Second
	evictionDelay = 30 * time.Second
)

// To the host's scheduler a cluster is one cgroup beside everything else that runs, each of which may
// be a single program: with the default weight a busy host starves it. Within the cluster, everybody
// waits for the control plane.
const (
	clusterWeight = 16
	planeWeight   = 4
)

// collectorPercent is GOGC of every program of the cluster. Their heaps are small and short-lived: with the
// default of 100 a good part of the processor's time goes to collecting them.
const collectorPercent = "400"

// plane is the control plane.
type plane struct {
	space     *space.Space
	etcd      *component
	apiServer *component
	others    []*component // all that need the API server to start
}

// startPlane starts etcd and the API server, and does not wait for them.
func (s *supervisor) startPlane() error {
	created, err := s.newSpace(planeName)
	if err != nil {
		return err
	}
	s.plane = &plane{space: created}
	if err := s.setUpPlaneNetwork(); err != nil {
		return err
	}
	config, err := render("kube-proxy.yaml", map[string]any{
		"Node": nodeName(0), "Address": s.addresses.apiServer(), "AllPods": s.addresses.allPods(),
	})
	if err != nil {
		return err
	}
	if err := s.write("config/"+planeName+"/kube-proxy.yaml", config); err != nil {
		return err
	}
	s.plane.etcd = s.newComponent(created, "etcd", "etcd", etcdArgs()...)
	s.plane.apiServer = s.newComponent(created, "kube-apiserver", "kube-apiserver", s.apiServerArgs()...)
	s.plane.others = []*component{
		s.newComponent(created, "kube-controller-manager", "kube-controller-manager", controllerManagerArgs()...),
		s.newComponent(created, "kube-scheduler", "kube-scheduler", schedulerArgs()...),
		s.newComponent(created, "kube-proxy-"+planeName, "kube-proxy", "--config="+insideState+"/config/"+planeName+"/kube-proxy.yaml"),
	}
	if err := s.plane.etcd.start(); err != nil {
		return err
	}
	return s.plane.apiServer.start()
}

// waitForAPIServer returns when the API server says that it is ready.
func (s *supervisor) waitForAPIServer(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return poll(ctx, "the API server, see "+s.log("kube-apiserver"), func(ctx context.Context) (string, bool) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var status int
		result := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		return fmt.Sprint(result.Error()), status == http.StatusOK
	})
}

func etcdArgs() []string {
	// Killing a process loses nothing that it has written, so fsync protects against nothing here.
	return []string{
		"--data-dir=" + insideState + "/etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--quota-backend-bytes=8589934592",
	}
}

func (s *supervisor) apiServerArgs() []string {
	certificates := insideState + "/pki/"
	eviction := fmt.Sprint(int(evictionDelay.Seconds()))
	args := []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=" + s.addresses.apiServer().String(), "--advertise-address=" + s.addresses.apiServer().String(),
		"--allow-privileged", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + certificates + "ca.crt",
		"--tls-cert-file=" + certificates + "kube-apiserver.crt", "--tls-private-key-file=" + certificates + "kube-apiserver.key",
		"--kubelet-client-certificate=" + certificates + "kubelet-client.crt", "--kubelet-client-key=" + certificates + "kubelet-client.key",
		"--kubelet-certificate-authority=" + certificates + "ca.crt",
		"--kubelet-preferred-address-types=InternalIP", // else logs and exec look for a host name
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + certificates + "service-accounts.crt",
		"--service-account-signing-key-file=" + certificates + "service-accounts.key",
		"--service-cluster-ip-range=" + s.addresses.services().String(),
		"--requestheader-client-ca-file=" + certificates + "front-ca.crt", "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + certificates + "front-client.crt", "--proxy-client-key-file=" + certificates + "front-client.key",
		"--audit-policy-file=" + insideState + "/config/audit.yaml", "--audit-log-path=" + insideState + "/audit/audit.log",
		"--audit-log-maxsize=100000", // in MB: one file, never rotated
		"--default-not-ready-toleration-seconds=" + eviction, "--default-unreachable-toleration-seconds=" + eviction,
	}
	return append(args, s.options.APIServerArgs...)
}

func controllerManagerArgs() []string {
	certificates := insideState + "/pki/"
	return []string{
		"--kubeconfig=" + insideState + "/config/kube-controller-manager.kubeconfig",
		"--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file=" + certificates + "service-accounts.key",
		"--root-ca-file=" + certificates + "ca.crt",
		"--cluster-signing-cert-file=" + certificates + "ca.crt", "--cluster-signing-key-file=" + certificates + "ca.key",
		"--node-monitor-grace-period=" + nodeGrace.String(), "--node-monitor-period=2s",
		"--kube-api-qps=500", "--kube-api-burst=1000", "--concurrent-statefulset-syncs=20",
	}
}

func schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + insideState + "/config/kube-scheduler.kubeconfig",
		"--bind-address=127.0.0.1", "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000",
	}
}

// newComponent names a program of the binaries, its log file and its arguments.
func (s *supervisor) newComponent(in *space.Space, name, program string, args ...string) *component {
	return &component{
		name: name, space: in, log: s.log(name), say: s.say,
		args: append([]string{insideBinaries + "/" + program}, args...),
	}
}

// newSpace creates the namespaces of one host of the cluster.
func (s *supervisor) newSpace(host string) (*space.Space, error) {
	log, err := openLog(s.log(host))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	folders, err := space.CreateCgroup(s.cgroup() + "/" + host + "/system")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(space.SetWeight(s.cgroup(), clusterWeight), space.SetWeight(s.cgroup()+"/"+planeName, planeWeight)); err != nil {
		return nil, err
	}
	created, err := space.New(space.Config{
		Setup: mustRead("setup.sh"), Init: insideBinaries + "/pause", Cgroups: folders, Log: log,
		Env: []string{
			"PATH=" + strings.Join([]string{insideBinaries, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}, ":"),
			"HOME=/tmp", "DIR=" + s.dir, "BINARIES=" + s.options.Binaries, "HOST=" + host, "GOGC=" + collectorPercent,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("starting host %s: %w", host, err)
	}
	return created, s.recordInit(host, created.Pid())
}
