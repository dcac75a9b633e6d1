// Package directory knows which namespaces hold root objects, and how many.
//
// It watches the metadata of the root kinds and keeps nothing of an object but its namespace and
// name, and nothing at all of a namespace without one: empty namespaces cost nothing. It decides
// nothing; the coordinator reads from it which namespaces of a shard need a scope.
//
// With Options.Namespaces it watches only those, for an installation that has no right on the
// whole cluster.
//
// A Directory is safe for concurrent use.
package directory

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Directory is an index of the namespaces that hold root objects.
type Directory struct{}

// New returns a Directory. It starts nothing.
func New(config *rest.Config, options Options) (*Directory, error) {
	return nil, errors.New("not written yet")
}

// Options configure a Directory.
type Options struct {
	// RootKinds are the kinds whose objects make a namespace worth caching. Required.
	RootKinds []schema.GroupVersionKind
	// ShardOf gives the shard of a namespace. Required by Namespaces alone.
	ShardOf func(namespace string) int
	// Namespaces limits the directory to these. Empty means the whole cluster.
	Namespaces []string
}

// Start runs until ctx ends and everything has stopped.
func (d *Directory) Start(ctx context.Context) error { return nil }

// NeedLeaderElection makes a manager start the directory without being a leader.
func (d *Directory) NeedLeaderElection() bool { return false }

// WaitForSync waits until every root kind has been read once, and reports whether it was.
func (d *Directory) WaitForSync(ctx context.Context) bool { return false }

// Namespaces returns the namespaces of a shard that hold root objects, and how many.
func (d *Directory) Namespaces(shard int) map[string]int { return nil }

// All returns every namespace that holds root objects, and how many.
func (d *Directory) All() map[string]int { return nil }

// Count returns how many root objects a namespace holds.
func (d *Directory) Count(namespace string) int { return 0 }

// Terminating reports whether a namespace is being deleted. One with root objects keeps its count
// for as long as they exist, however long it is stuck. Always false with Options.Namespaces.
func (d *Directory) Terminating(namespace string) bool { return false }

// OnChange calls f with each namespace whose count has changed (0: it is empty or gone), or that
// began or ceased to be terminating, and first with each that is known already. Calls come one after another, in a
// goroutine of the directory; several changes may come as one call, with the last count.
func (d *Directory) OnChange(f func(namespace string, count int)) {}
