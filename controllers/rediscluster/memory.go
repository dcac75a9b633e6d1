package rediscluster

import (
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memory is what the controller remembers of clusters from pass to pass. Nothing in it is needed for
// being right: a process that starts without it looks again, and does again what is harmless to repeat.
// It is safe for concurrent use; one cluster's memory belongs to the worker that has its key.
type memory struct {
	mu       sync.Mutex // guards clusters
	clusters map[client.ObjectKey]*clusterMemory
}

// clusterMemory is what is remembered of one cluster.
type clusterMemory struct {
	uid types.UID
	// closedFor is, by node instance, the name for which older connections were closed there.
	closedFor map[string]string
	// rejected is, by object, what the API server rejected last, and until when it is not tried again.
	rejected map[string]rejection
	// configured is, by node instance, what came of its last change of directives.
	configured map[string]configured
	// failovers is, by Pod UID, when a failover to the node was asked for last.
	failovers map[string]time.Time
	// reported is the status that was written last, and the version of the object that this made.
	reported        redisv1.RedisClusterStatus
	reportedVersion string
	reportedAt      time.Time
	// owesDetails is set while a change of details has not been written, to be written soon.
	owesDetails bool
	// fingerprint is what was seen last, and changedAt since when it has been so.
	fingerprint uint64
	changedAt   time.Time
}

// rejection is what the API server rejected, by the hash of what was applied.
type rejection struct {
	hash    string
	until   time.Time
	problem problem
}

// hangs is from how long on the asking of the nodes has met one that hangs: the bound of opening a
// connection, which is the shorter one. restRatio is how many times as long the cluster is then left alone.
const (
	hangs     = time.Second
	restRatio = 3
)

// configured is what came of a change of directives on one node: accepted, or the server's refusal.
type configured struct {
	hash    string
	refusal string
	// instead is what a node that refuses has for the directives that it was to be given.
	instead map[string]redisv1.ConfigValue
}

func newMemory() *memory { return &memory{clusters: map[client.ObjectKey]*clusterMemory{}} }

// of returns the memory of a cluster, a fresh one when the name belongs to another object than before.
func (m *memory) of(cluster *redisv1.RedisCluster) *clusterMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(cluster)
	known, found := m.clusters[key]
	if !found || known.uid != cluster.UID {
		known = &clusterMemory{uid: cluster.UID, configured: map[string]configured{}, rejected: map[string]rejection{},
			failovers: map[string]time.Time{}}
		m.clusters[key] = known
	}
	return known
}

func (m *memory) drop(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key)
}

func (m *memory) dropNamespace(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.clusters {
		if key.Namespace == namespace {
			delete(m.clusters, key)
		}
	}
}

// freshest returns the cluster with the status that was written last, where the cache does not show it
// yet: a comparison with an older one could take a change back unseen.
func (m *clusterMemory) freshest(cluster *redisv1.RedisCluster) *redisv1.RedisCluster {
	cluster = cluster.DeepCopy()
	if m.reportedVersion == "" {
		return cluster
	}
	order, err := resourceversion.CompareResourceVersion(cluster.ResourceVersion, m.reportedVersion)
	if err == nil && order < 0 {
		cluster.Status = *m.reported.DeepCopy()
	}
	return cluster
}

// pace is after how long to look again: as soon as the plan says while something changes, more and more
// seldom while nothing does, and rarely when all is well.
func (m *clusterMemory) pace(seen *observation, next plan.Plan, now time.Time) time.Duration {
	if seen.cluster.Spec.Paused || next.Settled() && next.Roll.Awaits == "" && !needsConfig(seen, m) {
		if m.owesDetails {
			return detailInterval
		}
		return jitter(pollStable)
	}
	if seenNow := fingerprint(seen); seenNow != m.fingerprint || m.changedAt.IsZero() {
		m.fingerprint, m.changedAt = seenNow, now
	}
	wait := next.Wait
	if wait <= 0 {
		wait = pollConverging
	}
	if quiet := now.Sub(m.changedAt); quiet > pollPatience {
		wait = max(wait, min(quiet/10, pollStuck))
	}
	// A pass that waits for a node that hangs holds a worker: most of the time it is others' turn. One that
	// is slow since the machine is busy must not be slowed down more.
	if seen.lasted >= hangs {
		wait = max(wait, restRatio*seen.lasted)
	}
	return wait
}

// fingerprint tells observations apart by what matters to how a cluster gets on.
func fingerprint(seen *observation) uint64 {
	h := fnv.New64a()
	write := func(words ...string) {
		for _, word := range words {
			h.Write([]byte(word))
			h.Write([]byte{0})
		}
	}
	write(strconv.FormatInt(seen.cluster.Generation, 10), seen.password.reason)
	for _, n := range seen.view.Nodes {
		write(n.PodUID, n.Address.IP, n.Err, n.ID, string(n.Role), n.PrimaryID, n.Slots.String(), n.Gate,
			strconv.Itoa(n.RestartCount), strconv.Itoa(len(n.Known)),
			strconv.FormatBool(n.ContainerRunning), strconv.FormatBool(n.LinkUp), strconv.FormatBool(n.ClusterOK))
	}
	return h.Sum64()
}

// instance names one run of a node's server.
func instance(n topology.Node) string { return n.PodUID + "/" + strconv.Itoa(n.RestartCount) }
