package space

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs a function on a thread of its own, which ends with it, and returns at once. The
// function may leave the thread in any namespace.
//
// The thread is never the process's first one: that one cannot end before the process does, so it
// would hold on to the namespaces, and /proc/self would show theirs.
func OnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// While this goroutine occupies the first thread, the next one gets another.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			f()
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
}
