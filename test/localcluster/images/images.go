// Package images assembles container images from files of this host: no registry, no Docker, no
// network. The same files give the same image.
package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// References under which the images are imported.
const (
	OperatorRef = "redis-operator:dev"
	RedisRef    = "redis:7.0"
	PauseRef    = "localcluster/pause:1"
)

// Operator is an image with one static binary as its entrypoint /manager, run as user 65532.
func Operator(binary string) (v1.Image, error) {
	return build([]file{{path: "/manager", source: binary}}, v1.Config{
		Entrypoint: []string{"/manager"}, User: "65532:65532", WorkingDir: "/",
	})
}

// Pause is the image of a Pod's sandbox: one static binary that waits for a signal, as /pause.
func Pause(binary string) (v1.Image, error) {
	return build([]file{{path: "/pause", source: binary}}, v1.Config{
		Entrypoint: []string{"/pause"}, User: "65535:65535", WorkingDir: "/",
	})
}

// file is one entry of an image. Exactly one of source, target, content and folder is set.
type file struct {
	path    string // in the image, absolute
	source  string // a file of this host, copied with its mode made 0755
	target  string // of a symbolic link
	content string // of a small file, mode 0644
	folder  int64  // mode of a folder
}

// build makes an image of one layer. Every file belongs to root and has the same time.
func build(files []file, config v1.Config) (v1.Image, error) {
	layer, err := pack(files)
	if err != nil {
		return nil, err
	}
	// Not compressed: that would cost each Node more than it saves on one machine.
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(layer, types.DockerUncompressedLayer))
	if err != nil {
		return nil, fmt.Errorf("adding a layer: %w", err)
	}
	if config.Env == nil {
		config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", Config: config, RootFS: mustRootFS(image),
	})
	if err != nil {
		return nil, fmt.Errorf("configuring an image: %w", err)
	}
	return image, nil
}

// mustRootFS is the list of layers, which an image held in memory always has.
func mustRootFS(image v1.Image) v1.RootFS {
	config, err := image.ConfigFile()
	if err != nil {
		panic(err)
	}
	return config.RootFS
}

// pack writes the files and all the folders above them as a tar archive, in order of their paths.
func pack(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, entry := range withFolders(files) {
		if err := entry.write(writer); err != nil {
			return nil, fmt.Errorf("packing %s: %w", entry.path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("packing a layer: %w", err)
	}
	return buffer.Bytes(), nil
}

// withFolders adds the folders that are missing, mode 0755, and sorts: parents come first.
func withFolders(files []file) []file {
	byPath := map[string]file{}
	for _, entry := range files {
		byPath[entry.path] = entry
		for parent := path.Dir(entry.path); parent != "/"; parent = path.Dir(parent) {
			if _, known := byPath[parent]; !known {
				byPath[parent] = file{path: parent, folder: 0o755}
			}
		}
	}
	all := make([]file, 0, len(byPath))
	for _, entry := range byPath {
		all = append(all, entry)
	}
	slices.SortFunc(all, func(a, b file) int {
		if a.path < b.path {
			return -1
		}
		return 1
	})
	return all
}

func (f file) write(writer *tar.Writer) error {
	header := &tar.Header{Name: f.path[1:], Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	var content []byte
	switch {
	case f.folder != 0:
		header.Typeflag, header.Mode, header.Name = tar.TypeDir, f.folder, header.Name+"/"
	case f.target != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.target, 0o777
	case f.source != "":
		read, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		header.Typeflag, content = tar.TypeReg, read
	default:
		header.Typeflag, header.Mode, content = tar.TypeReg, 0o644, []byte(f.content)
	}
	header.Size = int64(len(content))
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}
