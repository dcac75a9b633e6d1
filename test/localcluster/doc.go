// Package localcluster runs a real Kubernetes of three Nodes on one Linux host, without Docker and
// without any way out of the host: for the demo, the end-to-end stories and work by hand.
//
// A cluster is four sets of Linux namespaces, each held by one init process:
//
//	host                         control plane                     node-1, node-2, node-3
//	127.0.0.1:PORT --forwarder--> kube-apiserver, etcd,    bridge  containerd, kubelet, kube-proxy
//	                              scheduler, controllers  <------> and the Pods, with their own
//	                                                       cables  /run, /var, /tmp and /proc
//
// Each set has its own pid, mount, network, IPC and UTS namespace. The init processes die with the
// process that supervises the cluster, and everything in a pid namespace dies with its init: a
// cluster cannot outlive its supervisor, and no mount, link or rule of it is ever seen outside.
// What can be left behind after a crash is a cgroup named after the cluster and the cluster's own
// folder; Clean removes both, and Start begins with it.
//
// A Node is lost by killing its init process and cut off by taking down its cable; see the methods
// of Cluster for these and the other faults.
//
// It needs root, runc, the CNI plugins, nftables and the binaries of tools/kubernetes/build.sh. All
// methods are safe for concurrent use, except that faults on one and the same Node or component
// run one after the other.
package localcluster
