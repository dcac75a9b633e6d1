package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// CacheOptions configure Cache. Zero values are the defaults.
type CacheOptions struct {
	// Root is the repository's folder, with bin/k8s and deploy/crd. Default: the parent folder.
	Root string
	// Namespaces hold one RedisCluster each. Default 1000.
	Namespaces int
	// Empty namespaces are added then. Default 4000.
	Empty int
	// MultiNamespaces is how many namespaces controller-runtime's multi-namespace cache is given:
	// its time grows with their number, by 100 ms each. Default 200.
	MultiNamespaces int
}

// Validate reports the first option that cannot be used.
func (o CacheOptions) Validate() error {
	if o.Namespaces < 8 {
		return fmt.Errorf("Namespaces is %d, must be 8 or more: an eighth of them is measured", o.Namespaces)
	}
	if o.Empty < 1 || o.MultiNamespaces < 1 || o.MultiNamespaces > o.Namespaces {
		return errors.New("Empty must be positive, MultiNamespaces between 1 and Namespaces")
	}
	if o.MultiNamespaces > o.Empty {
		return errors.New("MultiNamespaces must not be larger than Empty")
	}
	return nil
}

// withDefaults fills in what is not set.
func (o CacheOptions) withDefaults() CacheOptions {
	if o.Root == "" {
		o.Root = ".."
	}
	if o.Namespaces == 0 {
		o.Namespaces = 1000
	}
	if o.Empty == 0 {
		o.Empty = 4000
	}
	if o.MultiNamespaces == 0 {
		o.MultiNamespaces = min(200, o.Namespaces)
	}
	return o
}

// objectSizes are the sizes between which the break-even is looked for, in bytes.
var objectSizes = []int{2 << 10, 8 << 10, 24 << 10, 60 << 10}

// Cache measures three ways to cache namespaces with one RedisCluster each on a bare etcd and
// kube-apiserver: ours (a directory and a scope a namespace), controller-runtime's multi-namespace
// cache, and one cluster-wide watch a kind. Each runs in a process of its own, with five kinds and
// a handler on each.
//
//   - sync_seconds: from nothing to everything read
//   - rss_bytes_per_namespace: growth of the resident set, unused memory returned
//   - goroutines_per_namespace
//   - empty_namespace_bytes: growth of the resident set by a namespace without objects
//   - received_bytes_ratio: bodies of lists and watches received for an eighth of the namespaces
//     over those of cluster-wide watches; those of the directory apart
//   - break_even_object_bytes: the object size from which that eighth takes less memory than
//     cluster-wide watches, interpolated between two measured sizes
//
// Those of the other two ways are prefixed multi_namespace_ and cluster_wide_.
func Cache(ctx context.Context, out io.Writer, options CacheOptions) error {
	options = options.withDefaults()
	if err := options.Validate(); err != nil {
		return err
	}
	b := &cacheBench{options: options, report: report{out: out, scenario: "cache"}}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.stop()
	for _, step := range []func(context.Context) error{b.measureWhole, b.measureMulti, b.measureBytes, b.measureBreakEven} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureWhole measures our cache and the cluster-wide one with every namespace, and what empty
// namespaces add to them while they run.
func (b *cacheBench) measureWhole(ctx context.Context) error {
	b.report.note("caching %d namespaces with one RedisCluster of %d bytes each, %d kinds",
		b.options.Namespaces, objectSizes[0], len(cachedKinds()))
	ours, err := b.startChild(ctx, cacheChild{Variant: variantScoped, Own: b.options.Namespaces})
	if err != nil {
		return err
	}
	defer ours.end()
	whole, err := b.startChild(ctx, cacheChild{Variant: variantClusterWide})
	if err != nil {
		return err
	}
	defer whole.end()
	b.perNamespace("", ours.first, b.options.Namespaces)
	b.perNamespace("cluster_wide_", whole.first, b.options.Namespaces)

	b.report.note("adding %d empty namespaces", b.options.Empty)
	if err := b.createNamespaces(ctx, emptyPrefix, b.options.Empty); err != nil {
		return err
	}
	for _, of := range []struct {
		prefix string
		child  *runningChild
	}{{"", ours}, {"cluster_wide_", whole}} {
		after, err := of.child.measure()
		if err != nil {
			return err
		}
		grown := float64(after.RSS-of.child.first.RSS) / float64(b.options.Empty)
		b.report.figure(of.prefix+"empty_namespace_bytes", grown, "bytes")
		grown = float64(after.Heap-of.child.first.Heap) / float64(b.options.Empty)
		b.report.figure(of.prefix+"empty_namespace_heap_bytes", grown, "bytes")
	}
	return nil
}

// measureMulti measures controller-runtime's multi-namespace cache, at a size that it can take.
func (b *cacheBench) measureMulti(ctx context.Context) error {
	count := b.options.MultiNamespaces
	b.report.note("multi-namespace cache: %d namespaces (ours had %d), it takes 100 ms for each", count, b.options.Namespaces)
	full, err := b.runChild(ctx, cacheChild{Variant: variantMultiNamespace, Own: count})
	if err != nil {
		return err
	}
	b.perNamespace("multi_namespace_", full, count)
	both, err := b.runChild(ctx, cacheChild{Variant: variantMultiNamespace, Own: count, OwnEmpty: count})
	if err != nil {
		return err
	}
	b.report.figure("multi_namespace_empty_namespace_bytes", float64(both.RSS-full.RSS)/float64(count), "bytes")
	if count == b.options.Namespaces {
		return nil
	}
	same, err := b.runChild(ctx, cacheChild{Variant: variantScoped, Own: count})
	if err != nil {
		return err
	}
	b.report.note("ours with %d namespaces, to compare:", count)
	b.report.figure(fmt.Sprintf("sync_seconds_at_%d", count), same.SyncSeconds, "s")
	b.report.figure(fmt.Sprintf("rss_bytes_per_namespace_at_%d", count), float64(same.RSS-same.BaseRSS)/float64(count), "bytes")
	return nil
}

// measureBytes compares what is received.
func (b *cacheBench) measureBytes(ctx context.Context) error {
	eighth, err := b.runChild(ctx, cacheChild{Variant: variantScoped, Own: b.options.Namespaces / 8})
	if err != nil {
		return err
	}
	whole, err := b.runChild(ctx, cacheChild{Variant: variantClusterWide})
	if err != nil {
		return err
	}
	b.report.figure("received_bytes_ratio", float64(eighth.Received)/float64(whole.Received), "ratio")
	b.report.figure("eighth_received_bytes", float64(eighth.Received), "bytes")
	b.report.figure("cluster_wide_received_bytes", float64(whole.Received), "bytes")
	b.report.figure("directory_received_bytes", float64(eighth.ReceivedByDirectory), "bytes")
	return nil
}

// measureBreakEven lets the objects grow until an eighth of the namespaces takes less memory than
// the whole cluster.
func (b *cacheBench) measureBreakEven(ctx context.Context) error {
	lastSize, lastAhead := 0.0, 0.0
	for i, size := range objectSizes {
		if i > 0 {
			if err := b.resize(ctx, size); err != nil {
				return err
			}
		}
		eighth, err := b.runChild(ctx, cacheChild{Variant: variantScoped, Own: b.options.Namespaces / 8})
		if err != nil {
			return err
		}
		whole, err := b.runChild(ctx, cacheChild{Variant: variantClusterWide})
		if err != nil {
			return err
		}
		ahead := float64(whole.RSS-whole.BaseRSS) - float64(eighth.RSS-eighth.BaseRSS)
		b.report.note("objects of %d bytes: an eighth takes %d bytes, cluster-wide %d", size, eighth.RSS-eighth.BaseRSS, whole.RSS-whole.BaseRSS)
		if ahead >= 0 {
			if i == 0 {
				lastSize, lastAhead = float64(size), 0
			}
			b.report.figure("break_even_object_bytes", crossing(lastSize, lastAhead, float64(size), ahead), "bytes")
			return nil
		}
		lastSize, lastAhead = float64(size), ahead
	}
	b.report.note("cluster-wide takes less memory at every size measured")
	return nil
}

// crossing is where the line through two points, the first at most 0 and the second at least, is 0.
func crossing(x0, y0, x1, y1 float64) float64 {
	if y1 <= y0 {
		return x0
	}
	return x0 + (x1-x0)*-y0/(y1-y0)
}

// perNamespace prints what a sample says about one namespace.
func (b *cacheBench) perNamespace(prefix string, s cacheSample, namespaces int) {
	count := float64(namespaces)
	b.report.figure(prefix+"sync_seconds", s.SyncSeconds, "s")
	b.report.figure(prefix+"rss_bytes_per_namespace", float64(s.RSS-s.BaseRSS)/count, "bytes")
	b.report.figure(prefix+"heap_bytes_per_namespace", float64(s.Heap-s.BaseHeap)/count, "bytes")
	b.report.figure(prefix+"goroutines_per_namespace", float64(s.Goroutines-s.BaseGoroutines)/count, "goroutines")
}
