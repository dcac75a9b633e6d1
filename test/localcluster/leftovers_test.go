package localcluster_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// surroundings is what a cluster might change outside its folder.
type surroundings map[string]string

// observeHost reads the host's mounts, links, rules, settings, and the folders that Kubernetes and
// containerd use by default.
func observeHost(t *testing.T) surroundings {
	t.Helper()
	seen := surroundings{}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		seen["mount "+fields[0]+" "+fields[4]] = "there"
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		addresses, _ := link.Addrs()
		seen["link "+link.Name] = fmt.Sprint(addresses)
	}
	rules, err := exec.Command("nft", "list", "tables").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen["nft tables"] = string(rules)
	for _, setting := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward",
		"net/netfilter/nf_conntrack_max",
	} {
		value, _ := os.ReadFile("/proc/sys/" + setting)
		seen["setting "+setting] = string(value)
	}
	for _, pattern := range []string{
		"/var/lib/kubelet", "/var/lib/kubelet/*", "/var/lib/containerd", "/var/lib/containerd/*", "/var/lib/cni", "/var/lib/cni/*",
		"/var/log/pods", "/var/log/pods/*", "/var/log/containers", "/var/log/containers/*", "/run/containerd", "/run/containerd/*",
		"/run/cni", "/run/cni/*", "/run/netns/*", "/run/localcluster", "/run/nri", "/run/kubernetes", "/run/xtables.lock",
		"/etc/cni", "/etc/cni/*", "/etc/containerd", "/etc/kubernetes", "/opt/*", "/usr/libexec/kubernetes",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			seen["path "+path] = "there"
		}
	}
	return seen
}

// sameAs reports every difference.
func (s surroundings) sameAs(t *testing.T, before surroundings) {
	t.Helper()
	for what, value := range s {
		if before[what] != value {
			t.Errorf("left behind: %s is %q, was %q", what, value, before[what])
		}
	}
	for what := range before {
		if _, still := s[what]; !still {
			t.Errorf("taken away: %s", what)
		}
	}
}

// processesOf returns what runs in the cgroup of a cluster, in its folder, or in namespaces that an
// earlier call has noted.
func processesOf(t *testing.T, name, dir string, namespaces map[string]bool) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		cgroup, _ := os.ReadFile(entry + "/cgroup")
		command, _ := os.ReadFile(entry + "/cmdline")
		folder, _ := os.Readlink(entry + "/cwd")
		belongs := strings.Contains(string(cgroup), "/localcluster-"+name+"/") || strings.HasPrefix(folder, dir)
		for kind := range namespaces {
			link, _ := os.Readlink(filepath.Join(entry, "ns", strings.SplitN(kind, ":", 2)[0]))
			belongs = belongs || link == kind
		}
		if belongs {
			found = append(found, entry+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// namespacesOf notes the namespaces of everything that runs in the cluster's cgroup.
func namespacesOf(t *testing.T, name, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range processesOf(t, name, dir, nil) {
		entry, _, _ := strings.Cut(line, " ")
		for _, kind := range []string{"pid", "mnt", "net"} {
			link, err := os.Readlink(filepath.Join(entry, "ns", kind))
			host, _ := os.Readlink("/proc/self/ns/" + kind)
			if err == nil && link != host {
				found[link] = true
			}
		}
	}
	return found
}

// checkNothingLeft fails for every process, cgroup and file of a cluster that has been stopped.
func checkNothingLeft(t *testing.T, name, dir string, namespaces map[string]bool) {
	t.Helper()
	for _, process := range processesOf(t, name, dir, namespaces) {
		t.Errorf("left behind: %s", process)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/localcluster-" + name, "/sys/fs/cgroup/*/localcluster-" + name, dir} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) > 0 {
			t.Errorf("left behind: %v (%v)", found, err)
		}
	}
}
