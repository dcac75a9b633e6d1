//go:build !race

package sharding

// simSeeds are as many as take about 95 s on one core.
const simSeeds = 20_000

// storySeeds are the seeds of each story.
const storySeeds = 30
