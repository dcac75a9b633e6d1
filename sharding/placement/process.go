package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Identity names one life of one process: podName_podUID_nonce. It is new with every process and
// every rejoin.
type Identity string

// NewIdentity composes an identity. It refuses empty parts and parts that hold the separator.
func NewIdentity(podName, podUID, nonce string) (Identity, error) {
	identity := Identity(podName + "_" + podUID + "_" + nonce)
	if err := identity.Validate(); err != nil {
		return "", err
	}
	return identity, nil
}

// Validate returns an error unless the identity has exactly three parts, none of them empty.
func (i Identity) Validate() error {
	parts := strings.Split(string(i), "_")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return &FieldError{Field: "identity", Problem: fmt.Sprintf("%q is not podName_podUID_nonce", string(i))}
	}
	return nil
}

// Member returns the member under whose name the process runs: its Pod's name.
func (i Identity) Member() Member {
	podName, _, _ := strings.Cut(string(i), "_")
	return Member(podName)
}

// PodUID returns the UID of the process's Pod, empty if the identity is malformed.
func (i Identity) PodUID() string {
	_, rest, _ := strings.Cut(string(i), "_")
	podUID, _, _ := strings.Cut(rest, "_")
	return podUID
}

// State is what P records of a process. It only goes forward, in the order of the constants.
type State string

// The states of a process. A process writes its own entry; others may only mark it dead.
const (
	Joining State = "joining" // registered, not ready to act
	Serving State = "serving" // may act for shards
	Leaving State = "leaving" // hands its shards over and takes no new ones
	Dead    State = "dead"    // final: the identity never acts again
)

var stateOrder = map[State]int{Joining: 1, Serving: 2, Leaving: 3, Dead: 4}

// DeathCause says how a death was recognised.
type DeathCause string

const (
	// Confirmed means that the process has certainly ended: its Leases may be emptied at once.
	Confirmed DeathCause = "confirmed"
	// Expired means that its presence Lease ran out: it may still run, and each of its Leases must
	// be seen to expire by itself.
	Expired DeathCause = "expired"
)

// Process is the entry of one identity in P.
type Process struct {
	Identity Identity
	Member   Member     // the Pod's name, as in the identity
	State    State      //
	Cause    DeathCause // set if and only if State is Dead
	Joined   int        // order of registration: the larger of two is the newer
}

func compareProcesses(a, b Process) int {
	return cmp.Or(compareMembers(a.Member, b.Member), cmp.Compare(a.Joined, b.Joined),
		strings.Compare(string(a.Identity), string(b.Identity)))
}

// compareMembers orders members by ordinal, then by name; names without an ordinal come last.
func compareMembers(a, b Member) int {
	return cmp.Or(cmp.Compare(a.ordinal(), b.ordinal()), strings.Compare(string(a), string(b)))
}

// ordinal is the number after the last dash, as a StatefulSet numbers its Pods.
func (m Member) ordinal() uint64 {
	const none = 1 << 63
	ordinal, err := strconv.ParseUint(string(m[strings.LastIndexByte(string(m), '-')+1:]), 10, 63)
	if err != nil {
		return none
	}
	return ordinal
}

// sortedMembers returns the members in order, each once.
func sortedMembers(members []Member) []Member {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, compareMembers)
	return slices.Compact(sorted)
}
