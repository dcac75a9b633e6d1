package check

import "fmt"

// Kind says which promise was broken.
type Kind string

// The kinds of violations; see the package's comment.
const (
	Overlap    Kind = "overlap"
	Unowned    Kind = "unowned"
	Incomplete Kind = "incomplete"
	Leftover   Kind = "leftover"
	Unknown    Kind = "unknown"
)

// Violation is one finding.
type Violation struct {
	Kind Kind
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Kind, v.Text) }

func found(kind Kind, format string, args ...any) Violation {
	return Violation{kind, fmt.Sprintf(format, args...)}
}

// Overlaps finds every accepted write of a process that did not hold the shard of its namespace when
// the write was made, every one of an older epoch after one of a newer, and every one that does not say
// a claim that its process had, or bears another shard's label.
func (h *History) Overlaps() []Violation {
	var violations []Violation
	newest := map[int]write{} // by shard: the write of the newest epoch so far
	for _, w := range h.writes {
		if problem := h.judgeHolder(w); problem != nil {
			violations = append(violations, *problem)
		}
		if problem := h.judgeClaim(w); problem != nil {
			violations = append(violations, *problem)
		}
		if label, ok := w.object.labels[h.o.ShardLabel]; w.object.known && (!ok || label != fmt.Sprint(w.shard)) {
			violations = append(violations, found(Unknown, "%s has the shard label %q, its namespace is in shard %d", w, label, w.shard))
		}
		if !w.isChange || !w.claim.known {
			continue
		}
		if last := newest[w.shard]; w.claim.epoch < last.claim.epoch {
			violations = append(violations, found(Overlap, "%s came after %s of a newer epoch", w, last))
			continue
		}
		newest[w.shard] = w
	}
	return violations
}

// judgeHolder asks the Lease who held the shard, and the server who wrote.
func (h *History) judgeHolder(w write) *Violation {
	l := h.lease(w.shard)
	if !w.isChange {
		if l.isHeldWithin(w.podUID, w.received, w.at) {
			return nil
		}
		v := found(Overlap, "%s, by a Pod that did not hold the shard then", w)
		return &v
	}
	t := l.at(w.object.version)
	switch {
	case t == nil:
		v := found(Overlap, "%s, while nobody held the shard", w)
		return &v
	case t.podUID() != w.podUID:
		v := found(Overlap, "%s, while %s held the shard, since version %d", w, t.holder, t.from)
		return &v
	}
	return nil
}

// judgeClaim compares what the write says of its claim with the Lease.
func (h *History) judgeClaim(w write) *Violation {
	var v Violation
	switch t := h.lease(w.shard).of(w.claim.epoch); {
	case !w.claim.known:
		v = found(Unknown, "%s says no claim that it was made under", w)
	case w.claim.shard != w.shard:
		v = found(Overlap, "%s was made under a claim on shard %d", w, w.claim.shard)
	case t == nil:
		v = found(Unknown, "%s names an epoch that no holder has written", w)
	case t.podUID() != w.podUID:
		v = found(Overlap, "%s was made under a claim of %s", w, t.holder)
	case w.isChange && t.to != 0 && w.object.version > t.to:
		v = found(Overlap, "%s was made under a claim that ended with version %d (%s)", w, t.to, t.how)
	default:
		return nil
	}
	return &v
}

func (w write) String() string {
	kind := "write"
	if !w.isChange {
		kind = "write without a change"
	}
	name := w.resource
	if w.subresource != "" {
		name += "/" + w.subresource
	}
	return fmt.Sprintf("shard %d: %s %d (%s %s %s/%s at %s by Pod %s, epoch %d)", w.shard, kind, w.object.version,
		w.verb, name, w.namespace, w.name, w.at.Format(clock), w.podUID, w.claim.epoch)
}

// clock is how times are printed.
const clock = "15:04:05.000"
