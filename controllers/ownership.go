// Package controllers registers the operator's controllers with a manager. It knows nothing of how
// the work is divided among several processes: what a controller may know of that is Ownership.
package controllers

import (
	"context"

	redisv1 "example.com/redis-operator/api/v1"
)

// Ownership is all that the controllers know of who may act on a namespace. Its methods are safe for
// concurrent use.
type Ownership interface {
	// Check answers whether a call that changes something may be started now, under the admission that
	// ctx carries. It does no I/O.
	Check(ctx context.Context) error
	// Labels are those that every object of the namespace bears, so that the API server can tell who
	// may change it.
	Labels(namespace string) map[string]string
	// Dropped registers a function that is called for each namespace that this process no longer owns.
	Dropped(func(namespace string))
}

// Single is the Ownership of a process that owns everything: one replica, or a test.
type Single struct{}

// Check allows everything for as long as ctx has not ended.
func (Single) Check(ctx context.Context) error { return ctx.Err() }

// Labels puts every namespace into shard 0.
func (Single) Labels(string) map[string]string { return map[string]string{redisv1.LabelShard: "0"} }

// Dropped never calls its argument: nothing is ever lost.
func (Single) Dropped(func(string)) {}
