// Package claim holds one shard's Lease for one process: it acquires it, renews it, knows until when
// it may be relied upon, and gives it back.
//
// It decides when a Lease may be taken (vacated, its own, of an older process of its own Pod, of a
// holder confirmed dead, or expired by this process's own observation), what the claim's epoch is,
// and when the process has to stop working because renewals do not come through. It refuses to take
// a Lease whose recorded settings (S and hash) are not this process's own.
//
// Whoever contends for a missing Lease creates it at once without a holder, and nobody creates one with
// a holder: a creation has no precondition, so that it may rest on what was true long ago. A process
// whose claim is inside its deadline then takes the Lease back at once; others may have it only after they
// have seen it unchanged for a Lease duration, in which every claim on the deleted one runs out.
//
// It does not decide who should hold a shard: the coordinator starts and releases claims. It does
// not know what work is in flight: the guard does, and is asked through Options.InFlight.
//
// The time of a claim, all of it on the monotonic clock and from when the last successful write was
// sent, never from when its answer came:
//
//	      write sent                RenewDeadline   LeaseDuration-CancelLead   LeaseDuration
//	          |-------- held --------|---- stalled ----|------ expiring -------|-- lost
//	          |<------------ a successful renewal: Recovered ------------------|
//	Acquired -'              Stalled-'        Expiring-'                 Lost -'  exit if a mutating
//	                   (stop admitting)   (cancel contexts)                       call is in flight
//
// A renewal that succeeds before the deadline keeps the epoch. Any write after it is a fresh
// acquisition with an epoch of its own, even where the stored holder was this process all the time.
//
// client-go's elector drives the acquiring and renewing, without ReleaseOnCancel: it would release
// on any end of its loop, before the work had drained, and could empty a successor's Lease. The
// LeasesGetter it is given records the send time and resourceVersion of each write and refuses to
// acquire a Lease that another process may still rely on.
//
// Invariants I1 and I6 of the sharding package rest on this package. All exported types are safe for
// concurrent use unless their comment says otherwise.
package claim
