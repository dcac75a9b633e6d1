package localcluster

import (
	"context"
	"fmt"

	"example.com/redis-operator/test/localcluster/internal/volumes"
	"k8s.io/client-go/kubernetes"
)

// volumesPath is where a Node sees its volumes; layout.volumes is the same folder for the host.
const volumesPath = "/var/lib/volumes"

// setUpStorage creates the storage class and serves it until the cluster stops.
func (s *supervisor) setUpStorage(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	provisioner := &volumes.Provisioner{Client: client, Folder: s.volumes, Path: volumesPath, Log: s.say}
	if err := provisioner.CreateClass(ctx); err != nil {
		return err
	}
	s.group.Go(func() { provisioner.Run(s.ctx) })
	return nil
}
