package placement

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxDeadKept bounds how many superseded dead identities of one member Prune keeps only because a Lease
// that was not looked at might name them, so that a member that crashes over and over does not fill P.
const maxDeadKept = 8

// ErrDead is returned for an identity that is recorded dead. That is final: its process must stop
// acting under it and join again under a new one.
var ErrDead = errors.New("identity is recorded dead")

// ErrUnknownIdentity is returned for an identity that P has no entry of. A process whose own entry
// is missing must join again under a new identity.
var ErrUnknownIdentity = errors.New("identity is not in the placement")

// StateError says that a process tried to go back to an earlier state.
type StateError struct {
	Identity Identity
	From, To State
}

// Error names the identity and both states.
func (e *StateError) Error() string {
	return fmt.Sprintf("process %s cannot go from %q to %q", e.Identity, e.From, e.To)
}

// StaleError says that a view of the StatefulSet is older than the one P was computed from, so
// that its owner must not write.
type StaleError struct {
	Seen, Recorded string // resourceVersions
}

// Error names both versions.
func (e *StaleError) Error() string {
	return fmt.Sprintf("StatefulSet seen at version %s, placement already computed from %s", e.Seen, e.Recorded)
}

// Record returns p with the state that a process writes of itself, placed anew. An identity that
// is not in P may only register as Joining, later states only follow earlier ones, and the same
// state again changes nothing.
//
// A registration marks the older identities of the same Pod UID dead and confirmed: the kubelet
// never runs two, so a process that rejoins must have nothing in flight under its old identity.
// Older identities of the same name and another UID are left alone: those Pods may still run.
//
// It returns ErrDead if the identity is recorded dead, ErrUnknownIdentity if it has no entry and
// the state is not Joining, a *StateError if the state would go back, and a *FieldError if the
// identity or the state is none.
func (p Placement) Record(identity Identity, state State) (Placement, error) {
	if err := identity.Validate(); err != nil {
		return Placement{}, err
	}
	if stateOrder[state] == 0 || state == Dead {
		return Placement{}, &FieldError{Field: "state", Problem: fmt.Sprintf("a process cannot record itself as %q", state)}
	}
	next := p.withOwnProcesses()
	i := next.indexOf(identity)
	switch {
	case i < 0 && state != Joining:
		return Placement{}, fmt.Errorf("recording %s as %s: %w", identity, state, ErrUnknownIdentity)
	case i < 0:
		next.Processes = register(next.Processes, identity)
	case next.Processes[i].State == Dead:
		return Placement{}, fmt.Errorf("recording %s as %s: %w", identity, state, ErrDead)
	case stateOrder[state] < stateOrder[next.Processes[i].State]:
		return Placement{}, &StateError{Identity: identity, From: next.Processes[i].State, To: state}
	default:
		next.Processes[i].State = state
	}
	return Place(next, next.Expected), nil
}

// register adds the identity as the newest, and buries what it supersedes for certain.
func register(processes []Process, identity Identity) []Process {
	joined := 0
	for i, process := range processes {
		joined = max(joined, process.Joined)
		if process.State != Dead && process.Member == identity.Member() &&
			process.Identity.PodUID() == identity.PodUID() {
			processes[i].State, processes[i].Cause = Dead, Confirmed
		}
	}
	processes = append(processes, Process{
		Identity: identity, Member: identity.Member(), State: Joining, Joined: joined + 1,
	})
	slices.SortFunc(processes, compareProcesses)
	return processes
}

// MarkDead returns p with the identity recorded as dead, placed anew. It is final. A death that
// was recorded as Expired may later be Confirmed, never the other way round; repeating it changes
// nothing. It returns ErrUnknownIdentity if there is no entry, and a *FieldError for another cause.
func (p Placement) MarkDead(identity Identity, cause DeathCause) (Placement, error) {
	if cause != Confirmed && cause != Expired {
		return Placement{}, &FieldError{Field: "cause", Problem: fmt.Sprintf("%q is neither confirmed nor expired", cause)}
	}
	next := p.withOwnProcesses()
	i := next.indexOf(identity)
	if i < 0 {
		return Placement{}, fmt.Errorf("marking %s dead: %w", identity, ErrUnknownIdentity)
	}
	if process := &next.Processes[i]; process.State != Dead || cause == Confirmed {
		process.State, process.Cause = Dead, cause
	}
	return Place(next, next.Expected), nil
}

// Prune returns p without the dead identities that are superseded: a newer identity of the member
// is recorded, or the member is not expected. It keeps those that are named: by a Lease whose takeover
// rests on the record of the death. Unless all Leases were looked at (complete), any might be named, and
// it keeps the latest eight of each member besides.
func (p Placement) Prune(named func(Identity) bool, complete bool) Placement {
	spare := maxDeadKept
	if complete {
		spare = 0
	}
	newest, kept := make(map[Member]int), make(map[Member]int)
	for _, process := range p.Processes {
		newest[process.Member] = max(newest[process.Member], process.Joined)
	}
	next := p.withOwnProcesses()
	slices.Reverse(next.Processes) // the latest of a member first
	next.Processes = slices.DeleteFunc(next.Processes, func(e Process) bool {
		superseded := e.Joined < newest[e.Member] || !p.IsExpected(e.Member)
		if e.State != Dead || !superseded || named(e.Identity) {
			return false
		}
		kept[e.Member]++
		return kept[e.Member] > spare
	})
	slices.Reverse(next.Processes)
	return next
}

// Expect returns p placed for the members that the StatefulSet expects as seen at the given
// resourceVersion. If the members are those that P has, nothing changes, the version included: so
// that a write of the StatefulSet's status does not cause one of P.
//
// It returns a *StaleError if P was computed from a newer StatefulSet, or from the same version
// with other members, and a *FieldError if the version is none. A source of members without
// versions passes the empty string; once a version is recorded, one is needed. A recorded version
// that is later than P itself is another cluster's, from which P was restored, and is passed over.
func (p Placement) Expect(members []Member, statefulSetVersion string) (Placement, error) {
	for _, member := range members {
		if err := validateMember("expected", member); err != nil {
			return Placement{}, err
		}
	}
	if slices.Equal(sortedMembers(members), p.Expected) {
		return Place(p, members), nil
	}
	if err := checkNewer(statefulSetVersion, p.comparableVersion()); err != nil {
		return Placement{}, err
	}
	p.StatefulSetVersion = statefulSetVersion
	return Place(p, members), nil
}

// withOwnProcesses returns p with a list of processes that may be changed; the rest is shared.
func (p Placement) withOwnProcesses() Placement {
	p.Processes = slices.Clone(p.Processes)
	return p
}

// comparableVersion is the recorded version of the StatefulSet, or empty where it cannot be this
// cluster's: P was written after what it records, and so under a later version.
func (p Placement) comparableVersion() string {
	order, err := resourceversion.CompareResourceVersion(p.StatefulSetVersion, p.Version)
	if err == nil && order > 0 {
		return ""
	}
	return p.StatefulSetVersion
}

// checkNewer refuses a version that is not newer than the recorded one.
func checkNewer(seen, recorded string) error {
	if recorded == "" {
		if seen == "" {
			return nil
		}
		return validateVersion(seen)
	}
	if err := validateVersion(seen); err != nil {
		return err
	}
	order, err := resourceversion.CompareResourceVersion(seen, recorded)
	if err != nil {
		return fmt.Errorf("comparing versions of the StatefulSet: %w", err)
	}
	if order <= 0 {
		return &StaleError{Seen: seen, Recorded: recorded}
	}
	return nil
}

func validateVersion(version string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return &FieldError{Field: "statefulSetVersion", Problem: fmt.Sprintf("%q is not a resourceVersion", version)}
	}
	return nil
}

// OptimalMoves returns the least number of shards that must get another home when the expected
// members become the given ones and every member is to have floor or ceil of the mean, as without
// weights. Shards without a home are not counted.
func (p Placement) OptimalMoves(expected []Member) int {
	members := sortedMembers(expected)
	held := heldHomes(p.Homes, newPreference(members, max(p.Shards, 0)))
	housed := 0
	for _, home := range p.Homes {
		if home != "" {
			housed++
		}
	}
	if len(members) == 0 {
		return housed
	}
	for member, quota := range quotas(held, max(p.Shards, 0)) {
		housed -= min(len(held[member]), quota)
	}
	return housed
}
