package localcluster

import (
	"bytes"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"example.com/redis-operator/test/localcluster/internal/pki"
)

// The cluster's folder and the binaries as every set of namespaces sees them.
const (
	insideState    = "/run/localcluster/state"
	insideBinaries = "/run/localcluster/bin"
)

//go:embed config
var configs embed.FS

// layout knows where things are in the cluster's folder, by paths of the host.
type layout struct{ dir string }

func (l layout) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}
func (l layout) kubeconfig() string          { return l.path("kubeconfig") }
func (l layout) auditLog() string            { return l.path("audit", "audit.log") }
func (l layout) socket() string              { return l.path("control.sock") }
func (l layout) log(component string) string { return l.path("log", component+".log") }
func (l layout) volumes(node string) string  { return l.path("nodes", node, "var", "lib", "volumes") }

// users are the kubeconfigs written besides the administrator's: file name, user and groups.
var users = []struct{ file, user, group string }{
	{"kube-controller-manager", "system:kube-controller-manager", ""},
	{"kube-scheduler", "system:kube-scheduler", ""},
	{"kube-proxy", "system:kube-proxy", ""},
}

// sysctls are what the kubelet wants to find; see config/setup.sh.
var sysctls = map[string]string{
	"overcommit_memory": "1", "panic_on_oom": "0", "panic": "10", "panic_on_oops": "1",
	"root_maxkeys": "1000000", "root_maxbytes": "25000000",
}

// writeFiles fills an empty folder with everything that the components read.
func (s *supervisor) writeFiles() error {
	folders := []string{"pki", "log", "audit", "etcd", "images", "config/sysctl"}
	for _, name := range append([]string{planeName}, s.nodeNames()...) {
		folders = append(folders, "config/"+name+"/cni")
		for _, folder := range []string{"stage", "var/lib/kubelet", "var/lib/volumes", "var/log", "var/tmp", "var/cache"} {
			folders = append(folders, filepath.Join("nodes", name, folder))
		}
	}
	for _, folder := range folders {
		if err := os.MkdirAll(s.path(folder), 0o755); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	for _, name := range append([]string{planeName}, s.nodeNames()...) {
		if err := os.Symlink("/run", s.path("nodes", name, "var", "run")); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	files := map[string]string{"config/resolv.conf": "", "config/audit.yaml": mustRead("audit.yaml")}
	for name, value := range sysctls {
		files["config/sysctl/"+name] = value + "\n"
	}
	for path, content := range files {
		if err := s.write(path, []byte(content)); err != nil {
			return err
		}
	}
	return s.writeCredentials()
}

func (l layout) write(path string, content []byte) error {
	if err := os.WriteFile(l.path(path), content, 0o600); err != nil {
		return fmt.Errorf("writing the cluster's files: %w", err)
	}
	return nil
}

// writeCredentials makes all keys, certificates and kubeconfigs.
func (s *supervisor) writeCredentials() error {
	authority, err := pki.NewAuthority("localcluster")
	if err != nil {
		return err
	}
	front, err := pki.NewAuthority("localcluster-front-proxy")
	if err != nil {
		return err
	}
	signing, err := pki.NewSigningKey()
	if err != nil {
		return err
	}
	pairs := map[string]pki.Pair{"ca": authority.Pair, "front-ca": front.Pair, "service-accounts": signing}
	if pairs["front-client"], err = front.Issue(pki.Subject{User: "front-proxy"}); err != nil {
		return err
	}
	for file, subject := range s.subjects() {
		if pairs[file], err = authority.Issue(subject); err != nil {
			return err
		}
	}
	for file, pair := range pairs {
		err := errors.Join(s.write("pki/"+file+".crt", pair.Certificate), s.write("pki/"+file+".key", pair.Key))
		if err != nil {
			return err
		}
	}
	if err := s.writeKubeconfig("kubeconfig", "https://"+s.forwarder, authority, pairs["admin"]); err != nil {
		return err
	}
	for _, name := range append(s.nodeNames(), "kube-controller-manager", "kube-scheduler", "kube-proxy") {
		if err := s.writeKubeconfig("config/"+name+".kubeconfig", s.addresses.server(), authority, pairs[name]); err != nil {
			return err
		}
	}
	return nil
}

// subjects are all whom the cluster's authority signs for, by file name.
func (s *supervisor) subjects() map[string]pki.Subject {
	subjects := map[string]pki.Subject{
		"admin":          {User: "admin", Groups: []string{"system:masters"}},
		"kubelet-client": {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"kube-apiserver": {
			User: "kube-apiserver",
			Names: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			},
			Addresses: []net.IP{
				net.IPv4(127, 0, 0, 1), s.addresses.apiServer().AsSlice(), s.addresses.kubernetes().AsSlice(),
			},
		},
	}
	for _, user := range users {
		subjects[user.file] = pki.Subject{User: user.user}
	}
	for i, name := range s.nodeNames() {
		subjects[name] = pki.Subject{
			User: "system:node:" + name, Groups: []string{"system:nodes"},
			Names: []string{name}, Addresses: []net.IP{s.addresses.node(i).AsSlice()},
		}
	}
	return subjects
}

func (s *supervisor) writeKubeconfig(path, server string, authority *pki.Authority, pair pki.Pair) error {
	content, err := render("kubeconfig.yaml", map[string]string{
		"Name": "localcluster-" + s.options.Name, "Server": server,
		"Authority":   base64.StdEncoding.EncodeToString(authority.Certificate),
		"Certificate": base64.StdEncoding.EncodeToString(pair.Certificate),
		"Key":         base64.StdEncoding.EncodeToString(pair.Key),
	})
	if err != nil {
		return err
	}
	return s.write(path, content)
}

// render fills in one of the files of the config folder.
func render(name string, values any) ([]byte, error) {
	parsed, err := template.New(name).Option("missingkey=error").Parse(mustRead(name))
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// mustRead reads a file that was compiled in.
func mustRead(name string) string {
	content, err := configs.ReadFile("config/" + name)
	if err != nil {
		panic(err)
	}
	return strings.TrimLeft(string(content), "\n")
}
