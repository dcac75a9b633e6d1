package localcluster

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func newTestSupervisor(t *testing.T) *supervisor {
	t.Helper()
	s := &supervisor{
		layout: layout{t.TempDir()}, addresses: newAddresses(1), forwarder: forwarder(1),
		options: Options{Name: "a", Nodes: 3, Log: func(string) {}, APIServerArgs: []string{"--v=4"}},
	}
	for i := range s.options.Nodes {
		s.nodes = append(s.nodes, &node{name: nodeName(i), index: i})
	}
	if err := s.writeFiles(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKubeconfigs(t *testing.T) {
	s := newTestSupervisor(t)
	cases := map[string]string{
		"kubeconfig": "https://127.0.0.1:26441", "config/node-2.kubeconfig": "https://198.18.0.1:6443",
		"config/kube-scheduler.kubeconfig": "https://198.18.0.1:6443",
	}
	for path, wantHost := range cases {
		config, err := clientcmd.BuildConfigFromFlags("", s.path(path))
		if err != nil {
			t.Errorf("reading %s: %v", path, err)
			continue
		}
		if config.Host != wantHost || len(config.CAData)*len(config.CertData)*len(config.KeyData) == 0 {
			t.Errorf("%s: host %s with %d, %d and %d bytes of credentials, want host %s",
				path, config.Host, len(config.CAData), len(config.CertData), len(config.KeyData), wantHost)
		}
		if info, err := os.Stat(s.path(path)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others: %v, %v", path, info, err)
		}
	}
}

func TestNodeFiles(t *testing.T) {
	s := newTestSupervisor(t)
	if err := s.writeNodeFiles(s.nodes[1]); err != nil {
		t.Fatal(err)
	}
	cases := map[string][]string{
		"config/node-2/kubelet.yaml":                 {"198.18.0.12", "cgroupRoot: /localcluster-a/node-2", "pki/node-2.crt"},
		"config/node-2/kube-proxy.yaml":              {"clusterCIDR: 198.18.16.0/20", "hostnameOverride: node-2"},
		"config/node-2/cni/10-localcluster.conflist": {`"subnet": "198.18.20.0/22"`},
		"config/node-2/containerd.toml":              {"config/node-2/cni", `sandbox = "localcluster/pause:1"`},
	}
	for path, want := range cases {
		content, err := os.ReadFile(s.path(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(content), part) {
				t.Errorf("%s lacks %q", path, part)
			}
		}
		if strings.HasSuffix(path, ".toml") {
			continue
		}
		if err := yaml.UnmarshalStrict(content, &map[string]any{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAPIServerArgsEndWithTheCallers(t *testing.T) {
	args := newTestSupervisor(t).apiServerArgs()
	if args[len(args)-1] != "--v=4" {
		t.Errorf("last argument %q", args[len(args)-1])
	}
}

func TestPerformRefusesWhatItDoesNotKnow(t *testing.T) {
	s := newTestSupervisor(t)
	s.ctx = t.Context()
	cases := map[string]struct {
		name string
		args []string
		want string
	}{
		"unknown operation": {"explode", nil, "no operation"},
		"too few arguments": {opKillPod, []string{"default"}, "takes 2 arguments"},
		"unknown Node":      {opLoseNode, []string{"node-9"}, `no Node is called "node-9"`},
		"lost Node to cut":  {opCutNode, []string{"node-1"}, "is lost"},
	}
	for name, tc := range cases {
		err := s.perform(t.Context(), tc.name, tc.args)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestFaultsNameTheirArguments(t *testing.T) {
	listed := strings.Join(Faults(), "\n")
	for _, want := range []string{"kill-container (arguments: NAMESPACE POD CONTAINER)", "lose-node (arguments: NODE)", "restart-etcd (arguments: none)"} {
		if !strings.Contains(listed, want) {
			t.Errorf("%q is not among\n%s", want, listed)
		}
	}
	if strings.Contains(listed, opImport+" ") {
		t.Error("importing an image is no fault")
	}
}
