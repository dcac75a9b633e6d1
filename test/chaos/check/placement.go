package check

import (
	"encoding/json"
	"fmt"
)

// placementVersion is one version of the placement.
type placementVersion struct {
	version, base uint64
	problem       string
	homes         map[int]string // by shard: the member
}

func (h *History) takePlacement(e event) {
	if e.verb == "delete" {
		return
	}
	p := placementVersion{version: e.object.version, base: e.base, homes: map[int]string{}}
	var document struct {
		Shards   int
		Expected []string
		Homes    map[string][]int
	}
	if err := json.Unmarshal([]byte(e.object.placement), &document); err != nil {
		p.problem = err.Error()
	}
	expected := map[string]bool{}
	for _, member := range document.Expected {
		expected[member] = true
	}
	for member, shards := range document.Homes {
		for _, shard := range shards {
			if other, twice := p.homes[shard]; twice {
				p.problem = fmt.Sprintf("shard %d has the homes %s and %s", shard, other, member)
			}
			if !expected[member] {
				p.problem = fmt.Sprintf("shard %d has the home %s, which is not expected", shard, member)
			}
			p.homes[shard] = member
		}
	}
	if len(expected) > 0 && len(p.homes) != h.o.Shards {
		p.problem = fmt.Sprintf("%d of %d shards have a home", len(p.homes), h.o.Shards)
	}
	h.placements = append(h.placements, p)
}

// Placements finds versions of the placement that no process can have meant: a shard without a home
// or with two, or with one that is not expected to work (I3).
func (h *History) Placements() []Violation {
	var violations []Violation
	for _, p := range h.placements {
		if p.problem != "" {
			violations = append(violations, found(Unknown, "placement version %d: %s", p.version, p.problem))
		}
	}
	return violations
}
