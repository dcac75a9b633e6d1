// Package membership knows which processes of an installation live: it keeps one presence Lease a
// process, watches those of the others, and recognises a death that the kubelet confirms.
//
// It decides when another process counts as expired (Observer, pure), what proves that a process
// has ended (ConfirmsDeath, pure), and what an identity looks like (NewIdentity). It refuses to
// decide what follows from that: states are recorded in P by the coordinator, and Leases of dead
// holders are emptied by sharding/claim.
//
// Confirmed means: a terminated state, current or last, in the kubelet's status of the very Pod
// UID, whose message contains the identity. To this end a process writes its identity to its
// terminationMessagePath before the identity is published; the kubelet copies that file into the
// status of any container that exited, SIGKILL included. Nothing else confirms: a Pod object that
// is gone proves nothing, since force deletion and PodGC remove it while the process may run.
//
// Expiry is timed only while the observer's own renewals come back on the same watch. After a break
// every observation starts anew, so that an outage of the API or of one watch makes nobody dead.
//
// Observer is not safe for concurrent use; Membership is.
package membership
