package space

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// One thread at a time, so that the first one would be used sooner or later.
func TestOnThreadLeavesTheFirstThreadAlone(t *testing.T) {
	for range 200 {
		used := make(chan int)
		OnThread(func() { used <- unix.Gettid() })
		if id := <-used; id == unix.Getpid() {
			t.Fatal("the function ran on the process's first thread")
		}
		runtime.Gosched()
	}
}
