package images

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// programs of this host that the Redis image has, and the Debian packages that they come from.
var programs = map[string]string{
	"redis-server": "redis-server", "redis-cli": "redis-tools", "redis-benchmark": "redis-tools", "busybox": "busybox-static",
}

// Redis is an image with the redis-server and redis-cli of this host, the shared libraries that they
// need, and busybox as its shell and tools. It runs as any user; its default is 999. A missing
// program is named in the error, with the Debian package that has it.
func Redis() (v1.Image, error) {
	files := []file{
		{path: "/data", folder: 0o1777}, {path: "/tmp", folder: 0o1777},
		{path: "/etc/passwd", content: "root:x:0:0:root:/:/bin/sh\nredis:x:999:999:redis:/data:/bin/sh\n"},
		{path: "/etc/group", content: "root:x:0:\nredis:x:999:\n"},
	}
	var found []string
	for program, debian := range programs {
		source, err := exec.LookPath(program)
		if err != nil {
			return nil, fmt.Errorf("images: %s is missing: apt-get install %s", program, debian)
		}
		resolved, err := filepath.EvalSymlinks(source)
		if err != nil {
			return nil, fmt.Errorf("finding %s: %w", program, err)
		}
		files = append(files, file{path: "/usr/bin/" + program, source: resolved})
		found = append(found, resolved)
	}
	libraries, err := sharedLibraries(found)
	if err != nil {
		return nil, err
	}
	tools, err := busyboxTools()
	if err != nil {
		return nil, err
	}
	return build(append(append(files, libraries...), tools...), v1.Config{
		Cmd: []string{"redis-server"}, User: "999:999", WorkingDir: "/data",
	})
}

// busyboxTools are links by the name of every tool that busybox has.
func busyboxTools() ([]file, error) {
	listed, err := exec.Command("busybox", "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tools of busybox: %w", err)
	}
	var links []file
	for tool := range strings.FieldsSeq(string(listed)) {
		if tool != "busybox" {
			links = append(links, file{path: "/bin/" + tool, target: "/usr/bin/busybox"})
		}
	}
	return links, nil
}

// libraryFolders are where the loader of Debian looks.
var libraryFolders = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/lib", "/usr/lib",
}

// sharedLibraries are the loader and all libraries that the programs and their libraries name, at
// the paths where the loader looks for them.
func sharedLibraries(programs []string) ([]file, error) {
	seen := map[string]bool{}
	var libraries []file
	queue := programs
	for len(queue) > 0 {
		names, err := neededBy(queue[0])
		if err != nil {
			return nil, err
		}
		queue = queue[1:]
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			entry, err := findLibrary(name)
			if err != nil {
				return nil, err
			}
			libraries = append(libraries, entry)
			queue = append(queue, entry.source)
		}
	}
	return libraries, nil
}

// neededBy reads what a program or library is linked with; its loader is named by a whole path.
func neededBy(path string) ([]string, error) {
	object, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer object.Close()
	names, err := object.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("reading the libraries of %s: %w", path, err)
	}
	for _, segment := range object.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(loader, 0); err != nil {
			return nil, fmt.Errorf("reading the loader of %s: %w", path, err)
		}
		names = append(names, strings.TrimRight(string(loader), "\x00"))
	}
	return names, nil
}

// findLibrary finds a library by name, or takes a whole path as it is.
func findLibrary(name string) (file, error) {
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = nil
		for _, folder := range libraryFolders {
			candidates = append(candidates, filepath.Join(folder, name))
		}
	}
	for _, candidate := range candidates {
		resolved, err := filepath.EvalSymlinks(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return file{}, fmt.Errorf("finding library %s: %w", name, err)
		}
		if _, err := os.Stat(resolved); err == nil {
			return file{path: candidate, source: resolved}, nil
		}
	}
	return file{}, fmt.Errorf("images: library %s is in none of %s", name, strings.Join(libraryFolders, " "))
}
