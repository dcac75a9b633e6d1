package stage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installLimit bounds the wait for the operator's replicas: they are ready within seconds.
const installLimit = 90 * time.Second

// Kubectl runs kubectl against the stage and returns what it printed.
func (s *Stage) Kubectl(ctx context.Context, args ...string) (string, error) {
	binary := filepath.Join(s.root, "bin", "k8s", "kubectl")
	if OnCurrentContext() {
		if _, err := os.Stat(binary); err != nil {
			binary = "kubectl"
		}
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running kubectl %v: %w: %s", args, err, out.String())
	}
	return out.String(), nil
}

// Install applies deploy/default, as it is or with another number of shards, and waits until every
// operator replica is ready.
func (s *Stage) Install(ctx context.Context) error {
	overlay := filepath.Join(s.root, "deploy", "default")
	if s.shards > 0 {
		dir, err := os.MkdirTemp("", "stage-deploy-")
		if err != nil {
			return fmt.Errorf("making an overlay: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err := s.writeOverlay(ctx, dir); err != nil {
			return err
		}
		overlay = dir
	}
	if _, err := s.Kubectl(ctx, "apply", "--server-side", "-k", overlay); err != nil {
		return fmt.Errorf("applying deploy/default: %w", err)
	}
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, installLimit, fmt.Errorf("not within %s", installLimit))
	defer cancel()
	if err := s.WaitOperator(ctx, OperatorReplicas); err != nil {
		return err
	}
	s.say("%d operator replicas ready in %.1f s", OperatorReplicas, time.Since(started).Seconds())
	return nil
}

// writeOverlay writes what docs/operations.md says of an installation with another number of shards: the
// manager's flag, and the server's fence made for that number.
func (s *Stage) writeOverlay(ctx context.Context, dir string) error {
	unfenced, err := filepath.Rel(dir, filepath.Join(s.root, "deploy", "unfenced"))
	if err != nil {
		return fmt.Errorf("finding deploy/unfenced: %w", err)
	}
	kustomization := fmt.Sprintf(`resources: [%s, fence.yaml]
patches:
- target: {kind: StatefulSet, name: %s}
  patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--shards=%d"]}]'
`, unfenced, OperatorStatefulSet, s.shards)
	fence := exec.CommandContext(ctx, "go", "run", "./cmd/fence", "-shards", strconv.Itoa(s.shards))
	fence.Dir, fence.Env = s.root, append(os.Environ(), "CGO_ENABLED=0") // as everything else is built
	fence.Stderr = os.Stderr
	policies, err := fence.Output()
	if err != nil {
		return fmt.Errorf("making the fence for %d shards: %w", s.shards, err)
	}
	for name, content := range map[string][]byte{"kustomization.yaml": []byte(kustomization), "fence.yaml": policies} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("writing an overlay: %w", err)
		}
	}
	return nil
}

// Uninstall removes what Install applied.
func (s *Stage) Uninstall(ctx context.Context) error {
	overlay := filepath.Join(s.root, "deploy", "default")
	_, err := s.Kubectl(ctx, "delete", "--ignore-not-found", "-k", overlay)
	return err
}

func operatorKey() types.NamespacedName {
	return types.NamespacedName{Namespace: OperatorNamespace, Name: OperatorStatefulSet}
}

// WaitOperator waits until the operator's StatefulSet is rolled out with that many ready replicas.
func (s *Stage) WaitOperator(ctx context.Context, replicas int32) error {
	return s.Wait(ctx, fmt.Sprintf("%d ready operator replicas", replicas), func() (string, error) {
		var set appsv1.StatefulSet
		if err := s.Client.Get(ctx, operatorKey(), &set); err != nil {
			return "not there yet", client.IgnoreNotFound(err)
		}
		status := set.Status
		if status.ObservedGeneration == set.Generation && status.ReadyReplicas == replicas &&
			status.Replicas == replicas && status.UpdatedReplicas == replicas {
			return "", nil
		}
		return fmt.Sprintf("%d of %d ready, %d updated", status.ReadyReplicas,
			ptr.Deref(set.Spec.Replicas, 1), status.UpdatedReplicas), nil
	})
}

// ScaleOperator sets the operator's replicas as `kubectl scale` does and waits for them.
func (s *Stage) ScaleOperator(ctx context.Context, replicas int32) error {
	_, err := s.Kubectl(ctx, "scale", "-n", OperatorNamespace, "statefulset/"+OperatorStatefulSet,
		fmt.Sprintf("--replicas=%d", replicas))
	if err != nil {
		return err
	}
	return s.WaitOperator(ctx, replicas)
}
