package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Options says which cluster to start. The zero value is a good cluster.
type Options struct {
	// Name tells clusters on one host apart: letters, digits and dashes, at most 20. Default "redis-operator".
	Name string
	// Dir is the cluster's own folder, for everything it writes. It is removed by Stop and Clean.
	// Default build/localcluster/NAME beside the bin/k8s that is used, or localcluster-NAME in the
	// folder for temporary files where that path would be too long. It is the same in every run, so
	// that the next one finds what a killed one has left.
	Dir string
	// Binaries is the folder that tools/kubernetes/build.sh wrote. Default: the bin/k8s of the
	// nearest parent folder that has one.
	Binaries string
	// Nodes is the number of Nodes, 1 to 3, each in a zone of its own. Default 3.
	Nodes int
	// Block is the slice of 198.18.0.0/15 that the cluster uses, 1 to 8. Default: the first free one.
	Block int
	// APIServerArgs are appended to the API server's command line.
	APIServerArgs []string
	// Log is told what happens, one line at a time. Default: nothing is said.
	Log func(string)

	ownDir bool // Dir is the default, which follows from the name
}

const (
	defaultName = "redis-operator"
	maxNodes    = 3
	// maxDir leaves room for the control socket: the path of a Unix socket has at most 107 bytes.
	maxDir = 90
	// cniPlugins is where Debian puts them.
	cniPlugins = "/usr/lib/cni"
)

var (
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`)
	// binaries are what tools/kubernetes/build.sh builds and a cluster runs.
	binaries = []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet",
		"containerd", "containerd-shim-runc-v2", "ctr", "pause",
	}
	// packages are the Debian packages of the programs that are not built here.
	packages = map[string]string{
		"runc": "runc", "nft": "nftables", "mount": "mount", "hostname": "hostname", "sh": "dash",
		cniPlugins + "/ptp": "containernetworking-plugins", cniPlugins + "/host-local": "containernetworking-plugins",
	}
)

// withDefaults fills in what is not set. It fails when no folder of binaries is found.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.Nodes == 0 {
		o.Nodes = maxNodes
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Binaries == "" {
		found, err := findBinaries()
		if err != nil {
			return o, err
		}
		o.Binaries = found
	}
	if o.Dir == "" {
		o.Dir, o.ownDir = filepath.Join(o.Binaries, "..", "..", "build", "localcluster", o.Name), true
		if len(o.Dir) > maxDir {
			o.Dir = filepath.Join(os.TempDir(), "localcluster-"+o.Name)
		}
	}
	for _, path := range []*string{&o.Dir, &o.Binaries} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("finding %s: %w", *path, err)
		}
		*path = absolute
	}
	return o, o.Validate()
}

// Validate checks the values alone, not what the host has.
func (o Options) Validate() error {
	switch {
	case !validName.MatchString(o.Name):
		return fmt.Errorf("localcluster: name %q is not 1 to 20 letters, digits and dashes", o.Name)
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("localcluster: %d Nodes are not 1 to %d", o.Nodes, maxNodes)
	case o.Block < 0 || o.Block > blocks:
		return fmt.Errorf("localcluster: block %d is not 1 to %d", o.Block, blocks)
	case len(o.Dir) > maxDir:
		return fmt.Errorf("localcluster: folder %s is longer than %d bytes", o.Dir, maxDir)
	case strings.ContainsAny(o.Dir+o.Binaries, " \t\n\"'\\"):
		return fmt.Errorf("localcluster: folder %s or %s has a space or quote in its name", o.Dir, o.Binaries)
	}
	return nil
}

func findBinaries() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	for {
		candidate := filepath.Join(folder, "bin", "k8s")
		if info, err := os.Stat(candidate); err == nil && info.IsDir() {
			return candidate, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("localcluster: no bin/k8s here or above: run tools/kubernetes/build.sh (make k8s)")
		}
		folder = parent
	}
}

// MissingError names what the host lacks, in one line.
type MissingError struct{ What string }

func (e *MissingError) Error() string { return "localcluster: " + e.What }

// checkHost returns a MissingError when a cluster cannot run here.
func (o Options) checkHost() error {
	if os.Geteuid() != 0 {
		return &MissingError{"it takes root: namespaces, mounts and cgroups are the kernel's own"}
	}
	for _, binary := range binaries {
		if _, err := os.Stat(filepath.Join(o.Binaries, binary)); errors.Is(err, fs.ErrNotExist) {
			return &MissingError{fmt.Sprintf("%s is not in %s: run tools/kubernetes/build.sh (make k8s)", binary, o.Binaries)}
		}
	}
	for program, debian := range packages {
		if _, err := exec.LookPath(program); err != nil {
			return &MissingError{fmt.Sprintf("%s is missing: apt-get install %s", program, debian)}
		}
	}
	return nil
}
