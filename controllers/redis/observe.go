package redis

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"example.com/redis-operator/controllers/topology"
)

// Observe asks a node everything that a topology.State holds. It never fails: what went wrong stands in
// the State.
func Observe(ctx context.Context, n Node) topology.State {
	info, err := n.Info(ctx)
	if err != nil {
		return unreachable(topology.State{}, err)
	}
	state := topology.State{
		Alive: true, Loading: info.Loading, Version: info.Version, ConfigFile: info.ConfigFile,
		Role: info.Role, Uptime: info.Uptime, Keys: info.Keys, Offset: info.Offset,
		LinkUp: info.LinkUp, Syncing: info.Syncing, LinkDownFor: info.LinkDownFor, PrimaryAddress: info.PrimaryAddress,
	}
	if info.Loading {
		state.Err = "loading its data set"
		return state
	}
	cluster, err := n.ClusterInfo(ctx)
	if err != nil {
		return unreachable(state, err)
	}
	myself, peers, err := n.ClusterNodes(ctx)
	if err != nil {
		return unreachable(state, err)
	}
	state.Reachable = true
	state.ClusterOK, state.CurrentEpoch = cluster.OK, cluster.CurrentEpoch
	state.ID, state.Role, state.PrimaryID = myself.ID, myself.Role, myself.PrimaryID
	state.Slots, state.ConfigEpoch, state.OpenSlots = myself.Slots, myself.ConfigEpoch, myself.OpenSlots
	state.Known = peers
	return state
}

// unreachable notes why a node did not answer, and whether a process is alive nonetheless: an error that the server
// itself sends (LOADING, BUSY, MASTERDOWN, NOAUTH, ...) comes from a live one.
func unreachable(state topology.State, err error) topology.State {
	state.Err = err.Error()
	state.Refused = errors.Is(err, syscall.ECONNREFUSED)
	if message, ok := ServerMessage(err); ok {
		state.Alive = true
		state.Loading = strings.HasPrefix(message, "LOADING")
	}
	return state
}
