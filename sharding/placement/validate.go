package placement

import (
	"fmt"
	"slices"
	"time"
)

// Validate returns a *FieldError for the first field that no sequence of transitions can have
// produced. Whether homes and deputies are those that Place gives is not checked: older rules may
// have placed them.
func (p Placement) Validate() error {
	checks := []func() error{
		p.Settings.Validate, p.validateTimings, p.validateExpected, p.validateProcesses,
		p.validateHomes, p.validateDeputies, p.validateWeights,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p Placement) validateTimings() error {
	if p.Timings == (Timings{}) {
		return nil
	}
	fields := []struct {
		name  string
		value time.Duration
	}{
		{"timings.leaseDuration", p.Timings.LeaseDuration},
		{"timings.renewDeadline", p.Timings.RenewDeadline},
		{"timings.retryPeriod", p.Timings.RetryPeriod},
	}
	for _, f := range fields {
		if f.value <= 0 {
			return &FieldError{Field: f.name, Problem: fmt.Sprintf("%v is not above zero", f.value)}
		}
	}
	return nil
}

func (p Placement) validateExpected() error {
	for i, member := range p.Expected {
		if err := validateMember(fmt.Sprintf("expected[%d]", i), member); err != nil {
			return err
		}
	}
	if !slices.Equal(p.Expected, sortedMembers(p.Expected)) {
		return &FieldError{Field: "expected", Problem: "not sorted by ordinal, each member once"}
	}
	if p.StatefulSetVersion != "" {
		return validateVersion(p.StatefulSetVersion)
	}
	return nil
}

func (p Placement) validateProcesses() error {
	seen := make(map[Identity]bool, len(p.Processes))
	for i, process := range p.Processes {
		path := fmt.Sprintf("processes[%d]", i)
		if err := process.validate(path); err != nil {
			return err
		}
		if seen[process.Identity] {
			return &FieldError{Field: path + ".identity", Problem: fmt.Sprintf("%q is listed twice", string(process.Identity))}
		}
		seen[process.Identity] = true
	}
	if !slices.IsSortedFunc(p.Processes, compareProcesses) {
		return &FieldError{Field: "processes", Problem: "not sorted by member and order of registration"}
	}
	return nil
}

func (e Process) validate(path string) error {
	if err := e.Identity.Validate(); err != nil {
		return &FieldError{Field: path + ".identity", Problem: fmt.Sprintf("%q is not podName_podUID_nonce", string(e.Identity))}
	}
	if e.Member != e.Identity.Member() {
		return &FieldError{Field: path + ".member", Problem: fmt.Sprintf("%q is not that of %q", string(e.Member), string(e.Identity))}
	}
	if stateOrder[e.State] == 0 {
		return &FieldError{Field: path + ".state", Problem: fmt.Sprintf("%q is not joining, serving, leaving or dead", string(e.State))}
	}
	if hasCause := e.Cause == Confirmed || e.Cause == Expired; hasCause != (e.State == Dead) || (!hasCause && e.Cause != "") {
		return &FieldError{Field: path + ".cause", Problem: fmt.Sprintf("%q does not go with the state %q", string(e.Cause), string(e.State))}
	}
	if e.Joined < 1 {
		return &FieldError{Field: path + ".joined", Problem: fmt.Sprintf("%d is not above zero", e.Joined)}
	}
	return nil
}

func (p Placement) validateHomes() error {
	if len(p.Homes) != p.Shards {
		return &FieldError{Field: "homes", Problem: fmt.Sprintf("%d entries for %d shards", len(p.Homes), p.Shards)}
	}
	expected := make(map[Member]bool, len(p.Expected))
	for _, member := range p.Expected {
		expected[member] = true
	}
	for shard, home := range p.Homes {
		if home == "" && len(p.Expected) > 0 {
			return &FieldError{Field: "homes", Problem: fmt.Sprintf("shard %d has none", shard)}
		}
		if home != "" && !expected[home] {
			return &FieldError{Field: "homes", Problem: fmt.Sprintf("%q of shard %d is not expected", string(home), shard)}
		}
	}
	return nil
}

func (p Placement) validateDeputies() error {
	for shard, deputy := range p.Deputies {
		if shard < 0 || int(shard) >= p.Shards {
			return &FieldError{Field: "deputies", Problem: fmt.Sprintf("shard %d is not below %d", shard, p.Shards)}
		}
		if err := validateMember("deputies", deputy); err != nil {
			return err
		}
	}
	return nil
}

func (p Placement) validateWeights() error {
	for shard, weight := range p.Weights {
		if shard < 0 || int(shard) >= p.Shards {
			return &FieldError{Field: "weights", Problem: fmt.Sprintf("shard %d is not below %d", shard, p.Shards)}
		}
		if weight < 0 || weight > MaxWeight {
			return &FieldError{Field: "weights", Problem: fmt.Sprintf("%d of shard %d is not between 0 and %d", weight, shard, MaxWeight)}
		}
	}
	return nil
}
