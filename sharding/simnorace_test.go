//go:build !race

package sharding

// simSeeds are as many as take a minute on one core.
const simSeeds = 10_000
