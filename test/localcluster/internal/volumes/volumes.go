// Package volumes provisions the volumes of a local cluster's storage class: a folder on the Node
// that the scheduler has chosen, for as long as the claim lives.
package volumes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// Class is the storage class, the default one.
	Class = "standard"

	driver          = "localcluster.cache.example.com/folder"
	providedBy      = "pv.kubernetes.io/provisioned-by"
	selectedNode    = "volume.kubernetes.io/selected-node"
	defaultClassKey = "storageclass.kubernetes.io/is-default-class"
)

// Provisioner makes and removes volumes.
type Provisioner struct {
	Client kubernetes.Interface
	// Folder is where a Node's volumes are, by the host's path.
	Folder func(node string) string
	// Path is the same folder as the Node itself sees it.
	Path string
	// Log is told of what fails; the work is tried again.
	Log func(string)
}

// CreateClass creates the storage class. It may exist already.
func (p *Provisioner) CreateClass(ctx context.Context) error {
	reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	_, err := p.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: Class, Annotations: map[string]string{defaultClassKey: "true"}},
		Provisioner: driver, ReclaimPolicy: &reclaim, VolumeBindingMode: &binding,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating storage class %s: %w", Class, err)
	}
	return nil
}

// item is one claim or, without namespace, one volume.
type item struct{ namespace, name string }

// Run works until the context ends.
func (p *Provisioner) Run(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(p.Client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[item]())
	enqueue := func(object any) {
		if meta, ok := object.(metav1.Object); ok {
			queue.Add(item{meta.GetNamespace(), meta.GetName()})
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	for _, informer := range []cache.SharedIndexInformer{claims, volumes} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			p.Log(fmt.Sprintf("volumes: %v", err))
			return
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		next, shutdown := queue.Get()
		if shutdown {
			return
		}
		err := p.handle(ctx, claims.GetStore(), volumes.GetStore(), next)
		if err != nil && ctx.Err() == nil {
			p.Log(fmt.Sprintf("volumes: %v", err))
			queue.AddRateLimited(next)
		} else {
			queue.Forget(next)
		}
		queue.Done(next)
	}
}

func (p *Provisioner) handle(ctx context.Context, claims, volumes cache.Store, next item) error {
	if next.namespace == "" {
		found, exists, err := volumes.GetByKey(next.name)
		if volume, ok := found.(*corev1.PersistentVolume); err == nil && exists && ok && isOver(volume) {
			return p.remove(ctx, volume)
		}
		return err
	}
	found, exists, err := claims.GetByKey(next.namespace + "/" + next.name)
	if claim, ok := found.(*corev1.PersistentVolumeClaim); err == nil && exists && ok && isWanting(claim) {
		return p.provide(ctx, claim)
	}
	return err
}

// isWanting says whether a claim of the class has a Node and no volume yet.
func isWanting(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && claim.Spec.VolumeName == "" && claim.Annotations[selectedNode] != "" &&
		claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == Class
}

// isOver says whether a volume of this provisioner has lost its claim and shall go.
func isOver(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[providedBy] == driver && volume.DeletionTimestamp == nil &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

func (p *Provisioner) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume := buildVolume(claim, p.Path)
	folder := filepath.Join(p.Folder(nodeOf(volume)), volume.Name)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("making the folder of %s: %w", volume.Name, err)
	}
	// Any user may write: a Pod need not set fsGroup. MkdirAll obeys the umask, Chmod does not.
	if err := os.Chmod(folder, 0o777); err != nil {
		return fmt.Errorf("opening the folder of %s: %w", volume.Name, err)
	}
	_, err := p.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating volume %s: %w", volume.Name, err)
	}
	return nil
}

func (p *Provisioner) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	if node := nodeOf(volume); node != "" {
		if err := os.RemoveAll(filepath.Join(p.Folder(node), volume.Name)); err != nil {
			return fmt.Errorf("removing the folder of %s: %w", volume.Name, err)
		}
	}
	err := p.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &volume.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", volume.Name, err)
	}
	return nil
}

// buildVolume is the volume for a claim, on the Node that the scheduler has chosen for its Pod.
func buildVolume(claim *corev1.PersistentVolumeClaim, path string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{providedBy: driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              Class,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(path, name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{claim.Annotations[selectedNode]},
				}},
			}}}},
		},
	}
}

// nodeOf is the Node in a volume's affinity, or "" for a volume of another form.
func nodeOf(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return ""
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, expression := range term.MatchExpressions {
			if expression.Key == corev1.LabelHostname && len(expression.Values) == 1 {
				return expression.Values[0]
			}
		}
	}
	return ""
}
