package localcluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/redis-operator/test/localcluster/images"
	"example.com/redis-operator/test/localcluster/internal/space"
)

const containerdSocket = "/run/containerd/containerd.sock"

// node is one Node: a set of namespaces and what runs in it.
type node struct {
	name  string
	index int

	mu       sync.Mutex      // one fault at a time; guards what follows
	space    *space.Space    // nil while the Node is lost
	imported map[string]bool // tar files that its containerd has
}

// zone is the Node's failure domain: zone-a, zone-b, zone-c.
func (n *node) zone() string { return "zone-" + string(rune('a'+n.index)) }

// startNode starts a Node that is not running, and returns when its containerd has all images and
// its kubelet has been started. The caller holds the lock.
func (s *supervisor) startNode(ctx context.Context, n *node) error {
	created, err := s.newSpace(n.name)
	if err != nil {
		return err
	}
	n.space = created
	if err := s.connectNode(n); err != nil {
		return err
	}
	if err := s.writeNodeFiles(n); err != nil {
		return err
	}
	config := insideState + "/config/" + n.name
	containerd := s.newComponent(created, "containerd-"+n.name, "containerd", "--config="+config+"/containerd.toml")
	kubelet := s.newComponent(created, "kubelet-"+n.name, "kubelet",
		"--config="+config+"/kubelet.yaml", "--kubeconfig="+config+".kubeconfig", "--cert-dir=/var/lib/kubelet/pki", "--housekeeping-interval=15s",
		"--hostname-override="+n.name, "--node-ip="+s.addresses.node(n.index).String(),
		"--node-labels=topology.kubernetes.io/region=local,topology.kubernetes.io/zone="+n.zone())
	proxy := s.newComponent(created, "kube-proxy-"+n.name, "kube-proxy", "--config="+config+"/kube-proxy.yaml")
	if err := containerd.start(); err != nil {
		return err
	}
	if err := s.waitForContainerd(ctx, n); err != nil {
		return err
	}
	if err := s.importMissing(ctx, n); err != nil {
		return err
	}
	// They keep trying until the API server is there.
	if err := kubelet.start(); err != nil {
		return err
	}
	return proxy.start()
}

func (s *supervisor) writeNodeFiles(n *node) error {
	values := map[string]any{
		"Node": n.name, "Address": s.addresses.node(n.index), "Pods": s.addresses.pods(n.index),
		"AllPods": s.addresses.allPods(), "DNS": s.addresses.dns(), "Cgroup": s.cgroup() + "/" + n.name,
		"CNIPlugins": cniPlugins, "PauseImage": images.PauseRef,
	}
	for name, path := range map[string]string{
		"containerd.toml": "containerd.toml", "kubelet.yaml": "kubelet.yaml", "kube-proxy.yaml": "kube-proxy.yaml",
		"cni.conflist": "cni/10-localcluster.conflist",
	} {
		content, err := render(name, values)
		if err != nil {
			return err
		}
		if err := s.write("config/"+n.name+"/"+path, content); err != nil {
			return err
		}
	}
	return nil
}

// waitForContainerd returns when containerd answers, plugins and all.
func (s *supervisor) waitForContainerd(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, "containerd, see "+s.log("containerd-"+n.name), func(ctx context.Context) (string, bool) {
		said, err := ctr(ctx, n.space, "version")
		return said, err == nil
	})
}

// ctr runs containerd's own client for the images and containers of Kubernetes.
func ctr(ctx context.Context, in *space.Space, args ...string) (string, error) {
	said, err := in.Run(ctx, "", insideBinaries+"/ctr",
		append([]string{"--address", containerdSocket, "--namespace", "k8s.io"}, args...)...)
	return strings.TrimSpace(said), err
}

// importMissing gives the Node the images that it does not have yet, the oldest first. The caller holds the Node's lock.
func (s *supervisor) importMissing(ctx context.Context, n *node) error {
	for _, file := range s.imageFiles() {
		if n.imported[file] {
			continue
		}
		if _, err := ctr(ctx, n.space, "images", "import", "--local", insideState+"/images/"+file); err != nil {
			return fmt.Errorf("importing %s on %s: %w", file, n.name, err)
		}
		n.imported[file] = true
	}
	return nil
}
