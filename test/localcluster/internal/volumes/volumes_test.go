package volumes

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func newClaim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	class := Class
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "c", UID: "u", Annotations: map[string]string{selectedNode: "node-2"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	change(claim)
	return claim
}

func TestIsWanting(t *testing.T) {
	other := "other"
	cases := map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   bool
	}{
		"has a Node":       {func(*corev1.PersistentVolumeClaim) {}, true},
		"no Node yet":      {func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"has a volume":     {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }, false},
		"of another class": {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &other }, false},
		"of no class":      {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, false},
		"on its way out":   {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }, false},
	}
	for name, tc := range cases {
		if got := isWanting(newClaim(tc.change)); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestIsOver(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"released": {func(*corev1.PersistentVolume) {}, true},
		"bound":    {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false},
		"retained": {func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"somebody's":    {func(v *corev1.PersistentVolume) { v.Annotations = nil }, false},
		"deleted twice": {func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }, false},
	}
	for name, tc := range cases {
		volume := buildVolume(newClaim(func(*corev1.PersistentVolumeClaim) {}), "/p")
		volume.Status.Phase = corev1.VolumeReleased
		tc.change(volume)
		if got := isOver(volume); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestProvisionerFollowsAClaim(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	root := t.TempDir()
	client := fake.NewClientset(newClaim(func(*corev1.PersistentVolumeClaim) {}))
	p := &Provisioner{
		Client: client, Path: "/inside", Log: func(line string) { t.Error(line) },
		Folder: func(node string) string { return filepath.Join(root, node) },
	}
	ended := make(chan struct{})
	running, stop := context.WithCancel(ctx)
	go func() { defer close(ended); p.Run(running) }()
	defer func() { stop(); <-ended }()

	var volume *corev1.PersistentVolume
	until(t, ctx, "the volume", func() bool {
		found, err := client.CoreV1().PersistentVolumes().Get(ctx, "pvc-u", metav1.GetOptions{})
		volume = found
		return err == nil
	})
	folder := filepath.Join(root, "node-2", "pvc-u")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("folder: %v, %v, want one that all may write to", info, err)
	}
	if volume.Spec.Local.Path != "/inside/pvc-u" || nodeOf(volume) != "node-2" || volume.Spec.ClaimRef.UID != "u" {
		t.Errorf("volume at %s on %s for %s", volume.Spec.Local.Path, nodeOf(volume), volume.Spec.ClaimRef.UID)
	}

	volume.Status.Phase = corev1.VolumeReleased
	if _, err := client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, "the end of folder and volume", func() bool {
		_, err := client.CoreV1().PersistentVolumes().Get(ctx, "pvc-u", metav1.GetOptions{})
		_, gone := os.Stat(folder)
		return err != nil && os.IsNotExist(gone)
	})
}

func until(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
