// Command pause waits for SIGTERM or SIGINT and reaps its children meanwhile. It is the sandbox of
// every Pod and the init process of every set of namespaces of a local cluster.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	reap()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended: signals of several may have become one.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
