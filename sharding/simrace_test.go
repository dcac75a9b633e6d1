//go:build race

package sharding

// simSeeds are as many as take the race detector half a minute on one core.
const simSeeds = 500

// storySeeds are the seeds of each story.
const storySeeds = 5
