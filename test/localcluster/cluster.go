package localcluster

import (
	"context"
	"errors"
	"net"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/client-go/rest"
)

// Options says which cluster to start. The zero value is a good cluster.
type Options struct {
	// Name tells clusters on one host apart: letters, digits and dashes, at most 20. Default "redis-operator".
	Name string
	// Dir is the cluster's own folder, for everything it writes. It is removed by Stop and Clean.
	// Default build/localcluster/NAME beside the bin/k8s that is used.
	Dir string
	// Binaries is the folder that tools/kubernetes/build.sh wrote. Default: the bin/k8s of the
	// nearest parent folder that has one.
	Binaries string
	// Nodes is the number of Nodes, 1 to 3, each in a zone of its own. Default 3.
	Nodes int
	// Block is the slice of 198.18.0.0/15 that the cluster uses, 1 to 8. Default: the first free one.
	Block int
	// APIServerArgs are appended to the API server's command line.
	APIServerArgs []string
	// Log is told what happens, one line at a time. Default: nothing is said.
	Log func(string)
}

// Cluster is a running cluster, started by this process or attached to.
type Cluster struct{}

var errNotBuilt = errors.New("localcluster: not there yet")

// Start starts a cluster and returns when all its Nodes are Ready. On an error nothing is left.
// The cluster ends with Stop, and with this process.
func Start(ctx context.Context, options Options) (*Cluster, error) { return nil, errNotBuilt }

// Attach gives access to a cluster that another process of this host supervises.
func Attach(dir string) (*Cluster, error) { return nil, errNotBuilt }

// Clean removes what a cluster of that name and folder left behind, also if it is still running.
func Clean(ctx context.Context, options Options) error { return errNotBuilt }

// Stop ends the cluster, also an attached one, and removes everything that belongs to it.
func (c *Cluster) Stop(ctx context.Context) error { return errNotBuilt }

// Kubeconfig is the path of a kubeconfig file with all rights, usable on this host.
func (c *Cluster) Kubeconfig() string { return "" }

// RESTConfig is the same as Kubeconfig, for client-go. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config { return nil }

// AuditLog is the path of the API server's audit log, one JSON object a line.
func (c *Cluster) AuditLog() string { return "" }

// Nodes are the names of the Nodes, in order.
func (c *Cluster) Nodes() []string { return nil }

// ImportImage makes an image available on every Node under the given reference, "redis:7.0" say.
func (c *Cluster) ImportImage(ctx context.Context, image v1.Image, ref string) error {
	return errNotBuilt
}

// Dial connects to an address inside the cluster, a Pod's or a Service's. The host in addr is an IP address.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return nil, errNotBuilt
}
