package localcluster

import (
	"context"
	"errors"
	"net"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/client-go/rest"
)

// Cluster is a running cluster, started by this process or attached to.
type Cluster struct {
	layout
	supervisor *supervisor
}

var errNotBuilt = errors.New("localcluster: not there yet")

// Start starts a cluster and returns when all its Nodes are Ready. On an error nothing is left.
// The cluster ends with Stop, and with this process.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	s, err := start(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Cluster{layout: s.layout, supervisor: s}, nil
}

// Attach gives access to a cluster that another process of this host supervises.
func Attach(dir string) (*Cluster, error) { return nil, errNotBuilt }

// Stop ends the cluster, also an attached one, and removes everything that belongs to it.
func (c *Cluster) Stop(ctx context.Context) error { return c.supervisor.stop(ctx) }

// Kubeconfig is the path of a kubeconfig file with all rights, usable on this host.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig() }

// RESTConfig is the same as Kubeconfig, for client-go. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config { return c.supervisor.restConfig() }

// AuditLog is the path of the API server's audit log, one JSON object a line.
func (c *Cluster) AuditLog() string { return c.auditLog() }

// Nodes are the names of the Nodes, in order.
func (c *Cluster) Nodes() []string { return c.supervisor.nodeNames() }

// ImportImage makes an image available on every Node under the given reference, "redis:7.0" say.
func (c *Cluster) ImportImage(ctx context.Context, image v1.Image, ref string) error {
	if _, err := c.writeImage(image, ref); err != nil {
		return err
	}
	return c.supervisor.importImages(ctx)
}

// Dial connects to an address inside the cluster, a Pod's or a Service's. The host in addr is an IP address.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return dialInside(ctx, c.supervisor.plane.space.Pid(), network, addr)
}
