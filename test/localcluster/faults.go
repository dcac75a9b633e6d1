package localcluster

import "context"

// KillPod sends SIGKILL to all processes of the Pod's containers. The Pod stays; its containers are restarted.
func (c *Cluster) KillPod(ctx context.Context, namespace, name string) error { return errNotBuilt }

// KillContainer sends SIGKILL to all processes of one container of the Pod.
func (c *Cluster) KillContainer(ctx context.Context, namespace, name, container string) error {
	return errNotBuilt
}

// PausePod sends SIGSTOP to all processes of the Pod's containers.
func (c *Cluster) PausePod(ctx context.Context, namespace, name string) error { return errNotBuilt }

// ResumePod sends SIGCONT to all processes of the Pod's containers.
func (c *Cluster) ResumePod(ctx context.Context, namespace, name string) error { return errNotBuilt }

// CutPod drops every packet from and to the Pod. Its own loopback goes on working.
func (c *Cluster) CutPod(ctx context.Context, namespace, name string) error { return errNotBuilt }

// ReconnectPod ends CutPod.
func (c *Cluster) ReconnectPod(ctx context.Context, namespace, name string) error {
	return errNotBuilt
}

// CutNode takes the Node and its Pods off the network: they still reach each other, and nothing else.
func (c *Cluster) CutNode(ctx context.Context, node string) error { return errNotBuilt }

// ReconnectNode ends CutNode.
func (c *Cluster) ReconnectNode(ctx context.Context, node string) error { return errNotBuilt }

// LoseNode kills everything on the Node at once, as a power cut does. What is on its disk stays.
func (c *Cluster) LoseNode(ctx context.Context, node string) error { return errNotBuilt }

// RestoreNode starts a lost Node again, as after a reboot.
func (c *Cluster) RestoreNode(ctx context.Context, node string) error { return errNotBuilt }

// StopAPIServer ends the API server and leaves it ended.
func (c *Cluster) StopAPIServer(ctx context.Context) error { return errNotBuilt }

// StartAPIServer starts a stopped API server and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return errNotBuilt }

// RestartAPIServer is StopAPIServer and StartAPIServer.
func (c *Cluster) RestartAPIServer(ctx context.Context) error { return errNotBuilt }

// RestartEtcd ends etcd, starts it again, and returns when the API server is ready.
func (c *Cluster) RestartEtcd(ctx context.Context) error { return errNotBuilt }
