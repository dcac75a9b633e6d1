package main

import "context"

func run(ctx context.Context, options Options) error {
	_, _ = ctx, options
	return nil
}
