package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// entries are the headers of everything in an image, by path.
func entries(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	found := map[string]*tar.Header{}
	walk(t, image, func(header *tar.Header, _ io.Reader) { found["/"+strings.TrimSuffix(header.Name, "/")] = header })
	return found
}

func walk(t *testing.T, image v1.Image, visit func(*tar.Header, io.Reader)) {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(header, reader)
	}
}

func TestOneBinaryImages(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "built")
	if err := os.WriteFile(binary, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		build    func(string) (v1.Image, error)
		wantPath string
		wantUser string
	}{
		"operator": {Operator, "/manager", "65532:65532"},
		"pause":    {Pause, "/pause", "65535:65535"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			image, err := tc.build(binary)
			if err != nil {
				t.Fatal(err)
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != tc.wantUser || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != tc.wantPath {
				t.Errorf("runs %v as %s, want %s as %s", config.Config.Entrypoint, config.Config.User, tc.wantPath, tc.wantUser)
			}
			if header := entries(t, image)[tc.wantPath]; header == nil || header.Mode != 0o755 || header.Size != 2 {
				t.Errorf("%s is %+v, want an executable of 2 bytes", tc.wantPath, header)
			}
			again, err := tc.build(binary)
			if err != nil {
				t.Fatal(err)
			}
			one, _ := image.Digest()
			two, _ := again.Digest()
			if one != two {
				t.Errorf("the same file gave %s and %s", one, two)
			}
			if _, err := tc.build(binary + "x"); err == nil {
				t.Error("a binary that is not there made an image")
			}
		})
	}
}

func TestFoldersComeBeforeWhatIsInThem(t *testing.T) {
	var paths []string
	for _, entry := range withFolders([]file{{path: "/a/b/c", content: "x"}, {path: "/a", folder: 0o1777}}) {
		paths = append(paths, entry.path)
		if entry.path == "/a" && entry.folder != 0o1777 {
			t.Errorf("/a has mode %o, want what was asked for", entry.folder)
		}
	}
	if got := strings.Join(paths, " "); got != "/a /a/b /a/b/c" {
		t.Errorf("order %s", got)
	}
}

func TestRedisImageHasWhatTheEntryScriptNeeds(t *testing.T) {
	image, err := Redis()
	if err != nil {
		t.Fatal(err)
	}
	found := entries(t, image)
	for _, path := range []string{
		"/usr/bin/redis-server", "/usr/bin/redis-cli", "/usr/bin/busybox", "/bin/sh", "/bin/od", "/bin/sed", "/bin/grep",
		"/bin/awk", "/bin/cat", "/bin/sleep", "/bin/mv", "/bin/rm", "/bin/printf",
	} {
		if found[path] == nil {
			t.Errorf("%s is missing", path)
		}
	}
	if data := found["/data"]; data == nil || data.Mode&0o777 != 0o777 {
		t.Errorf("/data is %+v, want a folder that every user may write to", data)
	}
}

// The image runs as it is unpacked, without anything of this host, as an unknown user.
func TestRedisImageRuns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changing the root folder takes root")
	}
	image, err := Redis()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	unpack(t, image, root)
	cases := map[string]struct {
		args []string
		want string
	}{
		"server": {[]string{"/usr/bin/redis-server", "--version"}, "Redis server v="},
		"client": {[]string{"/usr/bin/redis-cli", "--version"}, "redis-cli "},
		"shell":  {[]string{"/bin/sh", "-c", `printf 'a\001' | od -An -tx1 | sed 's/ //g' | grep . | awk '{print $1 "!"}'`}, "6101!"},
	}
	for name, tc := range cases {
		command := exec.Command(tc.args[0], tc.args[1:]...)
		command.Dir = "/"
		command.Env = []string{"PATH=/usr/bin:/bin"}
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		said, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(said), tc.want) {
			t.Errorf("%s: %v: %q, want %q", name, err, said, tc.want)
		}
	}
}

func unpack(t *testing.T, image v1.Image, root string) {
	t.Helper()
	walk(t, image, func(header *tar.Header, content io.Reader) {
		path := filepath.Join(root, header.Name)
		var err error
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, path)
		default:
			var read []byte
			if read, err = io.ReadAll(content); err == nil {
				err = os.WriteFile(path, read, os.FileMode(header.Mode)&0o777)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
