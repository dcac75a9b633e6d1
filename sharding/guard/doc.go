// Package guard stands between the queue and the work, and between the work and the API: it admits a
// reconcile request only under a live claim on the request's shard, and refuses each call that would
// change something once the claim under which it was admitted is over.
//
// It decides whether a request or a call may go on now. It compares the clock with the claim's
// deadline at each call, since the end of a context is announced by a timer that lags after a pause
// of the process (I6). It counts what is in flight for each epoch, so that a shard can be drained
// before its Lease is released (I1), and it drops requests and timers of shards that are not held
// (I5).
//
// It does not decide who holds a shard, and never touches a Lease. What it
// cannot see is a call that has left the process: one that was cancelled may still be carried out by
// a slow server. Preconditions and the server's own fence are for that.
//
// The life of a shard in the guard, with the events of package claim that lead to it:
//
//	            Admit                StopAdmitting            Drain
//	absent ---------------> open ------------------> closed ---------> draining
//	  ^   Acquired            ^ Stalled, or handover   |  Recovered        |
//	  |                       '------- Admit ----------+-------------------'
//	  '---- Revoke (Lost, Released) ----- from any of them
//
// Cancel (Expiring) ends the contexts of what was admitted until then; only Admit, with the same or a
// new epoch, opens the shard again, and what was cancelled stays so.
//
// All of it is safe for concurrent use.
package guard
