// Package bench measures. Each scenario prints one line a figure,
//
//	bench <scenario> <metric> <value> <unit>
//
// and judges nothing: docs/benchmarks.md holds the figures against their aims. Where a user would
// pick something else instead, that is measured beside ours in the same run, since the machines
// these run on are shared and noisy.
package bench
