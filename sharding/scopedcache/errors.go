package scopedcache

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers branch on. NotOwnedError matches ErrNotOwned and NotSyncedError matches
// ErrNotSynced.
var (
	// ErrNotOwned says that a namespace is not cached here: another replica owns it, or none.
	ErrNotOwned = errors.New("namespace is not owned by this replica")
	// ErrNotSynced says that a namespace is being cached, but not all of it has been read yet.
	ErrNotSynced = errors.New("namespace is not synced yet")
	// ErrStopped says that the cache has ended, or that the scope was removed meanwhile.
	ErrStopped = errors.New("cache has stopped")
)

// NotOwnedError is returned by reads of a namespace that is not cached here.
type NotOwnedError struct {
	// Namespace that was asked for.
	Namespace string
}

// Error implements error.
func (e *NotOwnedError) Error() string {
	return fmt.Sprintf("namespace %q is not owned by this replica", e.Namespace)
}

// Is reports whether target is ErrNotOwned.
func (e *NotOwnedError) Is(target error) bool { return target == ErrNotOwned }

// NotSyncedError is returned while something of a namespace has not been read yet. It matches
// ErrNotSynced and whatever Err matches.
type NotSyncedError struct {
	// Namespace that is not synced.
	Namespace string
	// Kinds that hold it up, sorted.
	Kinds []string
	// Err is why the wait ended, or the last error of a list or watch; nil when neither is known.
	Err error
}

// Error implements error.
func (e *NotSyncedError) Error() string {
	text := fmt.Sprintf("namespace %q is not synced yet", e.Namespace)
	if len(e.Kinds) > 0 {
		text += ": waiting for " + strings.Join(e.Kinds, ", ")
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports whether target is ErrNotSynced.
func (e *NotSyncedError) Is(target error) bool { return target == ErrNotSynced }

// Unwrap returns Err.
func (e *NotSyncedError) Unwrap() error { return e.Err }
