package localcluster

import "context"

// KillPod sends SIGKILL to all processes of the Pod's containers. The Pod stays; its containers are
// restarted by the kubelet.
func (c *Cluster) KillPod(ctx context.Context, namespace, name string) error {
	return c.perform(ctx, opKillPod, namespace, name)
}

// KillContainer sends SIGKILL to all processes of one container of the Pod.
func (c *Cluster) KillContainer(ctx context.Context, namespace, name, container string) error {
	return c.perform(ctx, opKillContainer, namespace, name, container)
}

// PausePod sends SIGSTOP to all processes of the Pod's containers, and returns when they have stopped.
func (c *Cluster) PausePod(ctx context.Context, namespace, name string) error {
	return c.perform(ctx, opPausePod, namespace, name)
}

// ResumePod sends SIGCONT to all processes of the Pod's containers.
func (c *Cluster) ResumePod(ctx context.Context, namespace, name string) error {
	return c.perform(ctx, opResumePod, namespace, name)
}

// CutPod drops every packet from and to the Pod, those of open connections included. Its own
// loopback goes on working. The Pod stays cut until ReconnectPod, or until its Node is lost.
func (c *Cluster) CutPod(ctx context.Context, namespace, name string) error {
	return c.perform(ctx, opCutPod, namespace, name)
}

// ReconnectPod ends CutPod. For a Pod that is not cut it does nothing.
func (c *Cluster) ReconnectPod(ctx context.Context, namespace, name string) error {
	return c.perform(ctx, opReconnectPod, namespace, name)
}

// ReconnectPods ends CutPod for every Pod, also for those that are gone: their addresses would else
// stay cut for the Pods that get them next.
func (c *Cluster) ReconnectPods(ctx context.Context) error { return c.perform(ctx, opReconnectPods) }

// CutNode takes the Node and its Pods off the network: they still reach each other, and nothing else.
func (c *Cluster) CutNode(ctx context.Context, node string) error {
	return c.perform(ctx, opCutNode, node)
}

// ReconnectNode ends CutNode. For a Node that is not cut it does nothing.
func (c *Cluster) ReconnectNode(ctx context.Context, node string) error {
	return c.perform(ctx, opReconnectNode, node)
}

// LoseNode kills everything on the Node at once, as a power cut does, and returns when it is dead.
// What is on the Node's disk stays.
func (c *Cluster) LoseNode(ctx context.Context, node string) error {
	return c.perform(ctx, opLoseNode, node)
}

// RestoreNode starts a lost Node again, as after a reboot, and returns when its kubelet has been
// started. For a Node that is not lost it does nothing.
func (c *Cluster) RestoreNode(ctx context.Context, node string) error {
	return c.perform(ctx, opRestoreNode, node)
}

// StopAPIServer ends the API server and leaves it ended.
func (c *Cluster) StopAPIServer(ctx context.Context) error { return c.perform(ctx, opStopAPIServer) }

// StartAPIServer starts a stopped API server and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.perform(ctx, opStartAPIServer) }

// PauseAPIServer sends SIGSTOP to the API server: it takes connections, and answers nothing.
func (c *Cluster) PauseAPIServer(ctx context.Context) error { return c.perform(ctx, opPauseAPIServer) }

// ResumeAPIServer ends PauseAPIServer. For an API server that is not paused it does nothing.
func (c *Cluster) ResumeAPIServer(ctx context.Context) error {
	return c.perform(ctx, opResumeAPIServer)
}

// RestartAPIServer is StopAPIServer and StartAPIServer.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	return c.perform(ctx, opRestartAPIServer)
}

// RestartEtcd ends etcd, starts it again, and returns when the API server is ready.
func (c *Cluster) RestartEtcd(ctx context.Context) error { return c.perform(ctx, opRestartEtcd) }
