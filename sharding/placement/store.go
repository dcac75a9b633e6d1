package placement

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataKey is the key of the ConfigMap under which P is stored.
const DataKey = "placement.json"

const creating = "creating"

// maxChanges bounds how often Change tries again after a conflict.
const maxChanges = 20

// ErrMissing is returned where P does not exist.
var ErrMissing = errors.New("placement does not exist")

// ErrConflict is returned where P was written by somebody else since it was read, or created by
// somebody else since it was seen missing.
var ErrConflict = errors.New("placement was changed by another process")

// UnreadableError says that what is stored is not a placement: it was edited by hand, say. It is not
// returned for other settings, which are a *SettingsError. It wraps what is wrong, a *FieldError
// mostly, or ErrOtherFormat.
type UnreadableError struct {
	ConfigMap string
	Version   string // resourceVersion of the object that cannot be read
	Err       error
}

// Error names the object first.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("reading ConfigMap %s: %v", e.ConfigMap, e.Err)
}

// Unwrap returns what is wrong.
func (e *UnreadableError) Unwrap() error { return e.Err }

// ConfigMaps is what a Store needs of the API. The typed client of one namespace,
// clientset.CoreV1().ConfigMaps(namespace), is one.
type ConfigMaps interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error)
	Create(ctx context.Context, object *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, object *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// Store reads and writes P as a ConfigMap, by compare-and-swap. It is safe for concurrent use.
type Store struct {
	configMaps   ConfigMaps
	installation string
	settings     Settings
}

// NewStore returns the store of an installation, whose ConfigMap it is in configMaps' namespace.
// Settings other than the given ones are refused; the zero Settings accept any.
func NewStore(configMaps ConfigMaps, installation string, settings Settings) *Store {
	return &Store{configMaps: configMaps, installation: installation, settings: settings}
}

// ConfigMapName is the name of the ConfigMap that holds P.
func ConfigMapName(installation string) string { return installation + "-placement" }

// Load reads P from the API server. It returns ErrMissing if there is none, a *SettingsError if it
// was made with other settings, an *UnreadableError if it is not a placement, and the API's own
// errors.
func (s *Store) Load(ctx context.Context) (Placement, error) {
	configMap, err := s.configMaps.Get(ctx, ConfigMapName(s.installation), metav1.GetOptions{})
	if err != nil {
		return Placement{}, s.apiError("loading", err)
	}
	return s.Read(configMap)
}

// Read takes P out of a ConfigMap that a watch has delivered, with the errors of Load.
func (s *Store) Read(configMap *corev1.ConfigMap) (Placement, error) {
	p, err := s.decode(configMap)
	var settings *SettingsError
	switch {
	case errors.As(err, &settings):
		return Placement{}, fmt.Errorf("reading ConfigMap %s: %w", configMap.Name, err)
	case err != nil:
		return Placement{}, &UnreadableError{ConfigMap: configMap.Name, Version: configMap.ResourceVersion, Err: err}
	}
	p.Version = configMap.ResourceVersion
	return p, nil
}

func (s *Store) decode(configMap *corev1.ConfigMap) (Placement, error) {
	data, ok := configMap.Data[DataKey]
	if !ok {
		return Placement{}, &FieldError{Field: "data", Problem: "no key " + DataKey}
	}
	if s.settings != (Settings{}) {
		theirs, err := decodeSettings([]byte(data))
		if err != nil {
			return Placement{}, err
		}
		// Settings that no installation can have are a broken object, not another installation.
		if theirs != s.settings && theirs.Hash != "" && theirs.Shards >= 1 && theirs.Shards <= MaxShards {
			return Placement{}, &SettingsError{Ours: s.settings, Theirs: theirs}
		}
	}
	return Decode([]byte(data))
}

// Create writes P where there is none and returns it with its version. It returns ErrConflict if
// there is one already.
func (s *Store) Create(ctx context.Context, p Placement) (Placement, error) {
	configMap, err := s.build(p)
	if err != nil {
		return Placement{}, err
	}
	configMap.ResourceVersion = ""
	created, err := s.configMaps.Create(ctx, configMap, metav1.CreateOptions{})
	return s.written(creating, p, created, err)
}

// Update replaces the P of version p.Version and returns it with its new version. It returns
// ErrConflict if the stored version is another, and ErrMissing if P was deleted.
func (s *Store) Update(ctx context.Context, p Placement) (Placement, error) {
	if p.Version == "" {
		return Placement{}, fmt.Errorf("updating placement: %w", &FieldError{Field: "version", Problem: "empty"})
	}
	configMap, err := s.build(p)
	if err != nil {
		return Placement{}, err
	}
	updated, err := s.configMaps.Update(ctx, configMap, metav1.UpdateOptions{})
	return s.written("updating", p, updated, err)
}

// Change loads P, applies change to it and writes the result, again from the start after a
// conflict, up to twenty times. Nothing is written if change returns an equal placement. It
// returns what is stored in the end, the error of change as it is, and the errors of Load and
// Update.
func (s *Store) Change(ctx context.Context, change func(Placement) (Placement, error)) (Placement, error) {
	for try := 1; ; try++ {
		stored, err := s.Load(ctx)
		if err != nil {
			return Placement{}, err
		}
		next, err := change(stored)
		if err != nil {
			return Placement{}, err
		}
		if next.Equal(stored) {
			return stored, nil
		}
		next.Version = stored.Version
		written, err := s.Update(ctx, next)
		if err == nil || !errors.Is(err, ErrConflict) || try == maxChanges {
			return written, err
		}
	}
}

func (s *Store) build(p Placement) (*corev1.ConfigMap, error) {
	if s.settings != (Settings{}) && p.Settings != s.settings {
		return nil, fmt.Errorf("writing placement: %w", &SettingsError{Ours: s.settings, Theirs: p.Settings})
	}
	data, err := Encode(p)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName(s.installation), ResourceVersion: p.Version},
		Data:       map[string]string{DataKey: string(data)},
	}, nil
}

func (s *Store) written(act string, p Placement, stored *corev1.ConfigMap, err error) (Placement, error) {
	if err != nil {
		return Placement{}, s.apiError(act, err)
	}
	p = p.Clone()
	p.Version = stored.ResourceVersion
	return p, nil
}

func (s *Store) apiError(act string, err error) error {
	name := ConfigMapName(s.installation)
	switch {
	case apierrors.IsNotFound(err) && act != creating: // then it is the namespace that is not found
		return fmt.Errorf("%s ConfigMap %s: %w", act, name, ErrMissing)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s ConfigMap %s: %w", act, name, ErrConflict)
	}
	return fmt.Errorf("%s ConfigMap %s: %w", act, name, err)
}
