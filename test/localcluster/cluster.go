package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running cluster, started by this process or attached to.
type Cluster struct {
	layout
	name       string
	nodes      []string
	plane      process // the init process of the control plane
	keeper     int     // the process that supervises it
	rest       *rest.Config
	supervisor *supervisor // nil when another process supervises
}

// Start starts a cluster and returns when all its Nodes are Ready. On an error nothing is left.
// The cluster ends with Stop, and with this process.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	s, err := start(ctx, options)
	if err != nil {
		return nil, err
	}
	cluster, err := newCluster(s.dir)
	if err != nil {
		return nil, err
	}
	cluster.supervisor = s
	return cluster, nil
}

// Attach gives access to a cluster that another process of this host supervises.
func Attach(dir string) (*Cluster, error) {
	cluster, err := newCluster(dir)
	if err != nil {
		return nil, err
	}
	if !cluster.plane.isAlive() {
		return nil, fmt.Errorf("localcluster: cluster %s in %s does not run", cluster.name, dir)
	}
	return cluster, nil
}

// Find attaches to the cluster that Start would start with the same options.
func Find(options Options) (*Cluster, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	cluster, err := Attach(options.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("localcluster: no cluster runs in %s", options.Dir)
	}
	return cluster, err
}

// newCluster reads what a ready cluster has written.
func newCluster(dir string) (*Cluster, error) {
	found, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if !found.Ready {
		return nil, fmt.Errorf("localcluster: cluster %s in %s is not ready", found.Name, dir)
	}
	c := &Cluster{layout: layout{dir}, name: found.Name, plane: found.Inits[planeName], keeper: found.Supervisor.Pid}
	for i := range found.Nodes {
		c.nodes = append(c.nodes, nodeName(i))
	}
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig()); err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	return c, nil
}

// perform runs an operation here or asks the process that supervises the cluster.
func (c *Cluster) perform(ctx context.Context, name string, args ...string) error {
	if c.supervisor != nil {
		return c.supervisor.perform(ctx, name, args)
	}
	return c.ask(ctx, name, args)
}

// Stop ends the cluster and removes everything that belongs to it. For an attached cluster the process
// that supervises it gets a SIGTERM. A second call does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.supervisor != nil {
		return c.supervisor.stop(ctx)
	}
	return Clean(ctx, Options{Name: c.name, Dir: c.dir})
}

// Dead is closed when the control plane's namespaces are gone, by Stop or by force. It is nil, and
// never ready, for an attached cluster.
func (c *Cluster) Dead() <-chan struct{} {
	if c.supervisor == nil {
		return nil
	}
	return c.supervisor.plane.space.Dead()
}

// ReadyNodes asks the API server how many Nodes are Ready.
func (c *Cluster) ReadyNodes(ctx context.Context) (int, error) {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return 0, fmt.Errorf("making a client: %w", err)
	}
	return countReady(ctx, client)
}

// Name is the name given in Options.
func (c *Cluster) Name() string { return c.name }

// Dir is the cluster's folder.
func (c *Cluster) Dir() string { return c.dir }

// Supervisor is the number of the process that supervises the cluster.
func (c *Cluster) Supervisor() int { return c.keeper }

// Kubeconfig is the path of a kubeconfig file with all rights, usable on this host.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig() }

// RESTConfig is the same as Kubeconfig, for client-go. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// AuditLog is the path of the API server's audit log, one JSON object a line.
func (c *Cluster) AuditLog() string { return c.auditLog() }

// Nodes are the names of the Nodes, in order.
func (c *Cluster) Nodes() []string { return append([]string(nil), c.nodes...) }

// ImportImage makes an image available on every Node under the given reference, "redis:7.0" say. A
// Node that is lost gets it when it is restored.
func (c *Cluster) ImportImage(ctx context.Context, image v1.Image, ref string) error {
	file, err := c.writeImage(image, ref)
	if err != nil {
		return err
	}
	return c.perform(ctx, opImport, file)
}

// Dial connects to an address inside the cluster, a Pod's or a Service's. The host in addr is an IP
// address. The connection comes from the control plane's address.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !c.plane.isAlive() {
		return nil, fmt.Errorf("localcluster: dialling %s: cluster %s does not run", addr, c.name)
	}
	return dialInside(ctx, c.plane.Pid, network, addr)
}
