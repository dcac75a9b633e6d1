package check

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// History is what happened to an installation, as its API server logged it.
type History struct {
	o          Options
	windows    []Window
	leases     map[int]*lease
	placements []placementVersion
	writes     []write
	watches    map[string]*watch
	roots      map[string]*root
	marks      []mark
	end        time.Time // of the last event
	refused    int       // writes of the operator that the server refused
}

// mark is the newest version that some write had made by a moment.
type mark struct {
	at      time.Time
	version uint64
}

// write is one accepted write of the operator in a namespace that it serves.
type write struct {
	event
	shard int
	// isChange: it made its version. If not, it changed nothing, or the answer gave no version.
	isChange bool
}

// watch is one watch of the operator on a namespace that it serves.
type watch struct {
	podUID, resource, namespace string
	from, to                    time.Time // to is zero while it is open
}

// exempt are the kinds that every replica may write at any time.
var exempt = map[string]bool{
	"events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io": true,
	"selfsubjectreviews.authentication.k8s.io": true, "tokenreviews.authentication.k8s.io": true,
	"subjectaccessreviews.authorization.k8s.io": true, "selfsubjectaccessreviews.authorization.k8s.io": true,
}

// Read reads the audit log of the whole life of an installation. The windows say when something was
// broken on purpose.
func Read(log io.Reader, o Options, windows []Window) (*History, error) {
	h := &History{
		o: o, windows: windows, leases: map[int]*lease{}, watches: map[string]*watch{}, roots: map[string]*root{},
	}
	if err := eachEvent(log, o.Account, h.take); err != nil {
		return nil, err
	}
	slices.SortFunc(h.marks, func(a, b mark) int { return a.at.Compare(b.at) })
	newest := uint64(0)
	for i := range h.marks {
		newest = max(newest, h.marks[i].version)
		h.marks[i].version = newest
	}
	for i := range h.writes {
		w := &h.writes[i]
		w.isChange = w.object.version > h.newestBefore(w.received)
	}
	slices.SortStableFunc(h.writes, func(a, b write) int { return cmp.Compare(a.object.version, b.object.version) })
	slices.SortFunc(h.placements, func(a, b placementVersion) int { return cmp.Compare(a.version, b.version) })
	for _, l := range h.leases {
		l.settle()
	}
	return h, nil
}

// newestBefore is the newest version of all writes that had been answered before a moment. A write that
// is received later and changes something makes a newer one.
func (h *History) newestBefore(moment time.Time) uint64 {
	i, _ := slices.BinarySearchFunc(h.marks, moment, func(m mark, t time.Time) int { return m.at.Compare(t) })
	if i == 0 {
		return 0
	}
	return h.marks[i-1].version
}

func (h *History) take(e event) {
	h.end = later(h.end, e.at)
	if e.verb == "watch" {
		h.takeWatch(e)
		return
	}
	if !e.isAccepted() {
		if h.isServed(e) && !e.dryRun && e.code == 403 {
			h.refused++
		}
		return
	}
	if e.object.version > 0 {
		h.marks = append(h.marks, mark{e.at, e.object.version})
	}
	if shard, isLease := h.shardOfLease(e); isLease {
		h.lease(shard).take(e)
	}
	switch {
	case e.namespace == h.o.Namespace && e.resource == "configmaps" && e.name == h.o.Placement:
		h.takePlacement(e)
	case e.resource == h.o.RootResource:
		h.takeRoot(e)
	}
	if h.isServed(e) {
		h.writes = append(h.writes, write{event: e, shard: h.o.shardOf(e.namespace)})
	}
}

// isServed tells writes that only the owner of a shard may make.
func (h *History) isServed(e event) bool {
	return e.operator && e.namespace != "" && !exempt[e.resource] &&
		(e.namespace != h.o.Namespace || e.resource != "configmaps")
}

func (h *History) shardOfLease(e event) (int, bool) {
	number, isShard := strings.CutPrefix(e.name, h.o.LeasePrefix)
	shard, err := strconv.Atoi(number)
	return shard, isShard && err == nil && e.namespace == h.o.Namespace && e.resource == "leases.coordination.k8s.io"
}

func (h *History) lease(shard int) *lease {
	if h.leases[shard] == nil {
		h.leases[shard] = &lease{shard: shard}
	}
	return h.leases[shard]
}

func (h *History) takeWatch(e event) {
	if e.namespace == "" || e.namespace == h.o.Namespace {
		return
	}
	w := h.watches[e.id]
	if w == nil {
		w = &watch{podUID: e.podUID, resource: e.resource, namespace: e.namespace, from: e.received}
		h.watches[e.id] = w
	}
	if e.stage == "ResponseComplete" || e.stage == "Panic" {
		w.to = e.at
	}
}
