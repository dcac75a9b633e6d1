// Package plan decides what to do next to a Redis Cluster. Next is a pure function of what is wanted,
// what was seen and the time: it keeps no memory, does no I/O, and is safe for concurrent use. It never
// flushes or resets a node, never creates again what has already formed, and never acts on a node that
// it could not identify.
package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// Kind names what a step does.
type Kind string

// The kinds of step, with the fields of Step that each uses beside Pod, NodeID and Reason.
const (
	// SetConfigEpoch sends CLUSTER SET-CONFIG-EPOCH Epoch.
	SetConfigEpoch Kind = "SetConfigEpoch"
	// AddSlots sends CLUSTER ADDSLOTSRANGE for Slots.
	AddSlots Kind = "AddSlots"
	// Meet sends CLUSTER MEET for Peer, the address of the node PeerID.
	Meet Kind = "Meet"
	// Replicate sends CLUSTER REPLICATE PeerID.
	Replicate Kind = "Replicate"
	// Forget sends CLUSTER FORGET PeerID.
	Forget Kind = "Forget"
	// Takeover sends CLUSTER FAILOVER TAKEOVER: the node becomes primary without a vote.
	Takeover Kind = "Takeover"
	// OpenGate sets the start-gate annotation of the Pod to Gate. NodeID is empty: the node does not run.
	OpenGate Kind = "OpenGate"
	// Failover sends CLUSTER FAILOVER: the replica becomes primary once it has all that the primary has.
	Failover Kind = "Failover"
	// Replace deletes the Pod, unless its server answers as anything but the replica NodeID. NodeID is empty where no
	// server answers.
	Replace Kind = "Replace"
	// Restart deletes the Pod of a primary, whose storage has its data.
	Restart Kind = "Restart"
)

// Step is one thing to do. Steps of one plan that name different Pods are independent and may run at the
// same time; those of one Pod run in the order given, and none after one that failed.
type Step struct {
	Kind Kind
	// Pod and PodUID name the node that the step is done to. NodeID is the ID that the node answered with:
	// whoever acts must not send the command to a node with another.
	Pod, PodUID, NodeID string

	Peer   topology.Address
	PeerID string
	Slots  topology.SlotSet
	Epoch  uint64
	Gate   string

	// Reason tells a person why, in a few words without a full stop.
	Reason string
}

// Irreversible reports whether Redis cannot undo the step, so that the fence must be asked once more
// right before it.
func (s Step) Irreversible() bool {
	switch s.Kind {
	case Takeover, Forget, Replicate, OpenGate, Failover, Replace, Restart:
		return true
	}
	return false
}

// String is the step on one line, as it stands in golden traces.
func (s Step) String() string {
	words := []string{s.Pod, string(s.Kind)}
	switch s.Kind {
	case SetConfigEpoch:
		words = append(words, strconv.FormatUint(s.Epoch, 10))
	case AddSlots:
		words = append(words, s.Slots.String())
	case Meet:
		words = append(words, s.Peer.String())
	case Replicate, Forget:
		words = append(words, s.PeerID)
	case OpenGate:
		words = append(words, s.Gate)
	}
	return fmt.Sprintf("%s (%s)", strings.Join(words, " "), s.Reason)
}

// Phase is how far the cluster is.
type Phase string

// The phases. Forming lasts until every slot has had an owner once; Repairing means that something of a
// formed cluster is not as it should be; Rolling that everything is, and nodes are being replaced one by one; Settled
// that everything is, on every node, and nothing more can be done.
const (
	PhaseForming   Phase = "Forming"
	PhaseRepairing Phase = "Repairing"
	PhaseRolling   Phase = "Rolling"
	PhaseSettled   Phase = "Settled"
)

// ProblemKind classifies what no step of the planner can mend.
type ProblemKind string

// The kinds of problem.
const (
	// SlotsLost: slots of a formed cluster have no owner and no copy.
	SlotsLost ProblemKind = "SlotsLost"
	// ForeignNode: what answers at a Pod's address belongs to another cluster, or contradicts this one.
	ForeignNode ProblemKind = "ForeignNode"
	// SizeChange: size or replicasPerPrimary differ from the cluster that formed.
	SizeChange ProblemKind = "SizeChange"
	// StrayKeys: a node owns no slot and holds keys, so that it can neither replicate nor be emptied.
	StrayKeys ProblemKind = "StrayKeys"
	// SplitGroup: two nodes of one group own slots, each its own.
	SplitGroup ProblemKind = "SplitGroup"
	// NoElection: a primary does not answer, is not known to be stopped, and no election is possible.
	NoElection ProblemKind = "NoElection"
	// OpenSlots: slots are marked as migrating or importing.
	OpenSlots ProblemKind = "OpenSlots"
)

// Problem is something that a person should know of, and that the planner does not touch.
type Problem struct {
	Kind ProblemKind
	// Pod is the node that it is about; empty when it is about the cluster.
	Pod     string
	Message string
}

// Facts is what the view shows, whatever is to be done.
type Facts struct {
	// Formed is set once the slots have been given out: the cluster is never created again.
	Formed bool
	// Assigned is the slots that a live primary owns, by its own word; Missing all others.
	Assigned, Missing topology.SlotSet
	// SlotsCovered: all slots are assigned, and all reachable nodes say cluster_state:ok.
	SlotsCovered bool
	// ReplicasLinked: every node beside the primary of its group is a replica of it with its link up.
	ReplicasLinked bool
	// Agreed: every node answered, and all have the same owner for every slot, know exactly each other, at
	// the present addresses, without failure, handshake or open slot.
	Agreed bool
	// ReadyNodes is the number of nodes that answered, are in the cluster, and in their place: a primary
	// with slots, or a replica with its link up.
	ReadyNodes int
	// Primaries is the Pod name of each group's live primary with slots, by group.
	Primaries map[int]string
}

// Plan is what to do now, and what can be said of the cluster.
type Plan struct {
	Phase Phase
	// Steps is what to do now, empty when there is nothing to do but wait.
	Steps []Step
	// Wait is after how long to look again though nothing wakes the caller. Zero means never sooner than
	// for a settled cluster.
	Wait time.Duration
	// Reasons tells what is awaited, one clause each, without full stop. Empty when Settled.
	Reasons  []string
	Problems []Problem
	Facts    Facts
	// Roll tells of the nodes that are not as the present spec wants them.
	Roll Roll
}

// Settled reports whether nothing is to be done and nothing is awaited.
func (p Plan) Settled() bool { return p.Phase == PhaseSettled }
