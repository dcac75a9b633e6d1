// Package stage sets up a Kubernetes with this operator installed, and looks at it the way a user
// would: through the API server, the operator's logs and metrics, and Redis clients.
//
// The Kubernetes is a local one (package localcluster), or the current kubeconfig context when the
// environment variable CLUSTER is "current". Everything else is the same for both, so that the
// demo, the end-to-end stories and the benchmarks run on either.
//
// A Stage is safe for concurrent use once Open has returned.
package stage
