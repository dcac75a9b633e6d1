// Package images assembles container images from files of this host: no registry, no Docker, no
// network. The same files give the same image.
package images

import (
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// References under which the images are imported.
const (
	OperatorRef = "redis-operator:dev"
	RedisRef    = "redis:7.0"
	PauseRef    = "localcluster/pause:1"
)

var errNotBuilt = errors.New("images: not there yet")

// Operator is an image with one static binary as its entrypoint /manager, run as user 65532.
func Operator(binary string) (v1.Image, error) { return nil, errNotBuilt }

// Redis is an image with the redis-server and redis-cli of this host, the shared libraries that they
// need, and busybox as its shell and tools. It runs as any user; its default is 999.
func Redis() (v1.Image, error) { return nil, errNotBuilt }

// Pause is the image of a Pod's sandbox: one static binary that waits for a signal, as /pause.
func Pause(binary string) (v1.Image, error) { return nil, errNotBuilt }
