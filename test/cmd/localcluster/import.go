package main

import (
	"context"
	"errors"

	"example.com/redis-operator/test/localcluster"
	"example.com/redis-operator/test/localcluster/images"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// importImage takes "redis", "operator BINARY", or a tar file and a reference.
func importImage(ctx context.Context, options localcluster.Options, args []string) error {
	image, ref, err := openImage(args)
	if err != nil {
		return err
	}
	cluster, err := localcluster.Find(options)
	if err != nil {
		return err
	}
	if err := cluster.ImportImage(ctx, image, ref); err != nil {
		return err
	}
	say("every Node has " + ref)
	return nil
}

func openImage(args []string) (v1.Image, string, error) {
	switch {
	case len(args) == 1 && args[0] == "redis":
		image, err := images.Redis()
		return image, images.RedisRef, err
	case len(args) == 2 && args[0] == "operator":
		image, err := images.Operator(args[1])
		return image, images.OperatorRef, err
	case len(args) == 2:
		image, err := tarball.ImageFromPath(args[0], nil)
		return image, args[1], err
	}
	return nil, "", errors.New("localcluster: import redis | import operator BINARY | import FILE REFERENCE")
}
