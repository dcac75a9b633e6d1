package redistest

import "runtime"

// runLocked runs requests on one thread that never ends.
func runLocked(requests <-chan func()) {
	runtime.LockOSThread()
	for request := range requests {
		request()
	}
}
