package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		change    func(*Options)
		wantError string
	}{
		"good":           {func(*Options) {}, ""},
		"capital letter": {func(o *Options) { o.Name = "A" }, "name"},
		"long name":      {func(o *Options) { o.Name = strings.Repeat("a", 21) }, "name"},
		"dash at an end": {func(o *Options) { o.Name = "a-" }, "name"},
		"path as a name": {func(o *Options) { o.Name = "../a" }, "name"},
		"four Nodes":     {func(o *Options) { o.Nodes = 4 }, "Nodes"},
		"block 9":        {func(o *Options) { o.Block = 9 }, "block"},
		"long folder":    {func(o *Options) { o.Dir = "/" + strings.Repeat("a", maxDir) }, "longer"},
		"space":          {func(o *Options) { o.Dir = "/a b" }, "space"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			options := Options{Name: "a", Dir: "/a", Binaries: "/b", Nodes: 1}
			tc.change(&options)
			err := options.Validate()
			if (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("Validate: %v, want an error about %q", err, tc.wantError)
			}
		})
	}
}

// A run that is killed leaves its folder to the next one, which must come to the same.
func TestOptionsDefaultFolderOfDeepCheckout(t *testing.T) {
	binaries := filepath.Join("/", strings.Repeat("a", maxDir), "bin", "k8s")
	first, err := Options{Name: "e2e", Binaries: binaries}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Options{Name: "e2e", Binaries: binaries}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(os.TempDir(), "localcluster-e2e"); first.Dir != want || second.Dir != want || !first.ownDir {
		t.Errorf("folders %s and %s (own %t), want %s", first.Dir, second.Dir, first.ownDir, want)
	}
}

func TestOptionsDefaultsFollowTheBinaries(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "bin", "k8s"), 0o755); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "test", "deep")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	options, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "bin", "k8s"); options.Binaries != want {
		t.Errorf("binaries in %s, want %s", options.Binaries, want)
	}
	if want := filepath.Join(root, "build", "localcluster", "redis-operator"); options.Dir != want || !options.ownDir {
		t.Errorf("folder %s (own %t), want %s", options.Dir, options.ownDir, want)
	}
	if err := options.checkHost(); err == nil || !strings.Contains(err.Error(), "root") && !strings.Contains(err.Error(), "build.sh") {
		t.Errorf("checkHost without binaries: %v", err)
	}
}
