package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/redis-operator/test/localcluster/images"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeImage writes an image to the cluster's folder and returns the file's name there, which is made
// of its reference and digest.
func (l layout) writeImage(image v1.Image, ref string) (string, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", fmt.Errorf("reading image reference %s: %w", ref, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("building image %s: %w", ref, err)
	}
	file := strings.NewReplacer("/", "_", ":", "_").Replace(ref) + "-" + digest.Hex[:16] + ".tar"
	path := l.path("images", file)
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return file, nil // written before; it counts as the latest again
	}
	if err := tarball.WriteToFile(path+".new", tag, image); err != nil {
		return "", fmt.Errorf("writing image %s: %w", ref, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("writing image %s: %w", ref, err)
	}
	return file, nil
}

// imageFiles are the images that every Node shall have, the oldest first: of two with the same
// reference the later one counts.
func (l layout) imageFiles() []string {
	paths, err := filepath.Glob(l.path("images", "*.tar"))
	if err != nil {
		panic(err) // the pattern is bad
	}
	modified := map[string]int64{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			modified[path] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return int(modified[a] - modified[b]) })
	files := make([]string, 0, len(paths))
	for _, path := range paths {
		files = append(files, filepath.Base(path))
	}
	return files
}

func (s *supervisor) writePauseImage() error {
	image, err := images.Pause(filepath.Join(s.options.Binaries, "pause"))
	if err != nil {
		return err
	}
	_, err = s.writeImage(image, images.PauseRef)
	return err
}

// importImage gives every Node that is up the image in a file; a lost one gets it when it is restored.
func (s *supervisor) importImage(ctx context.Context, file string) error {
	problems := make([]error, len(s.nodes))
	var group sync.WaitGroup
	for i, n := range s.nodes {
		group.Go(func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.imported, file) // else a tag that has moved on would not move back
			if n.space != nil {
				problems[i] = s.importMissing(ctx, n)
			}
		})
	}
	group.Wait()
	return errors.Join(problems...)
}
