package check

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// vacated is the annotation in which a Lease without a holder says how it lost it.
const vacated = "sharding.example.com/vacated"

// leaseVersion is one version of a shard's Lease, or its deletion.
type leaseVersion struct {
	version, base uint64 // base is the version that it was written over; 0 for a creation
	received, at  time.Time
	holder, how   string // how it lost its holder
	deleted       bool
}

// tenure is the time in which one holder stands in a Lease.
type tenure struct {
	holder string
	// from is the version of the acquiring write, to that of the write that ended the tenure; to is 0
	// while nothing has.
	from, to uint64
	// begun and acquired are when the acquiring write was received and answered, renewed when the last
	// renewal was, ended when the ending write was.
	begun, acquired, renewed, ended time.Time
	how                             string
	versions                        []uint64
	lapses                          []lapse
}

// lapse is a time without a renewal.
type lapse struct{ from, to time.Time }

// lease is the history of one shard's Lease.
type lease struct {
	shard    int
	versions []leaseVersion
	tenures  []*tenure
	unlogged int // writes that must have been, since a later one was made over them
}

func (l *lease) take(e event) {
	l.versions = append(l.versions, leaseVersion{
		version: e.object.version, base: e.base, received: e.received, at: e.at,
		holder: e.object.holder, how: e.object.annotations[vacated], deleted: e.verb == "delete",
	})
}

// settle brings what was taken into order, and finds the tenures.
func (l *lease) settle() {
	var deletions []leaseVersion
	l.versions = slices.DeleteFunc(l.versions, func(v leaseVersion) bool {
		if v.deleted {
			deletions = append(deletions, v)
		}
		return v.deleted
	})
	slices.SortFunc(l.versions, func(a, b leaseVersion) int { return cmp.Compare(a.version, b.version) })
	for _, d := range deletions {
		// The answer to a deletion gives no version of its own: it follows what was answered before it.
		i, _ := slices.BinarySearchFunc(l.versions, d.at, func(v leaseVersion, t time.Time) int { return v.at.Compare(t) })
		if i > 0 {
			d.version = l.versions[i-1].version
		}
		l.versions = slices.Insert(l.versions, i, d)
	}
	for i, v := range l.versions {
		if v.base != 0 && (i == 0 || l.versions[i-1].version != v.base) {
			l.unlogged++
		}
		l.append(v)
	}
}

// append goes on by one version. A Lease that is missing, or was created again without a holder, says
// nothing of the last one, who may not know of it yet and acts until its deadline.
func (l *lease) append(v leaseVersion) {
	current := l.current()
	switch {
	case v.deleted:
		if current != nil {
			current.how = "deleted"
		}
	case v.holder == "" && v.base == 0:
	case v.holder == "" && current != nil:
		current.to, current.ended, current.how = v.version, v.at, v.how
	case v.holder == "":
	case current != nil && current.holder == v.holder:
		if v.at.Sub(current.renewed) > 0 {
			current.lapses = append(current.lapses, lapse{current.renewed, v.at})
		}
		current.versions, current.renewed, current.how = append(current.versions, v.version), v.at, ""
	default:
		if current != nil {
			current.to, current.ended = v.version, v.at
			if current.how == "" {
				current.how = "taken"
			}
		}
		l.tenures = append(l.tenures, &tenure{
			holder: v.holder, from: v.version, versions: []uint64{v.version},
			begun: v.received, acquired: v.at, renewed: v.at,
		})
	}
}

// current is the tenure that nothing has ended.
func (l *lease) current() *tenure {
	if n := len(l.tenures); n > 0 && l.tenures[n-1].to == 0 {
		return l.tenures[n-1]
	}
	return nil
}

// at is the tenure that a version falls into; nil where nobody held the Lease.
func (l *lease) at(version uint64) *tenure {
	for _, t := range l.tenures {
		if t.from <= version && (t.to == 0 || version < t.to) {
			return t
		}
	}
	return nil
}

// of is the tenure that an epoch names; nil if no holder ever wrote that version.
func (l *lease) of(epoch uint64) *tenure {
	for _, t := range l.tenures {
		if _, found := slices.BinarySearch(t.versions, epoch); found {
			return t
		}
	}
	return nil
}

// isHeldWithin tells whether the Pod held the Lease at some moment between the two.
func (l *lease) isHeldWithin(podUID string, from, to time.Time) bool {
	return slices.ContainsFunc(l.tenures, func(t *tenure) bool {
		return t.podUID() == podUID && !t.begun.After(to) && (t.to == 0 || !t.ended.Before(from))
	})
}

// podUID is the second part of an identity, podName_podUID_nonce.
func (t *tenure) podUID() string {
	parts := strings.Split(t.holder, "_")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}
