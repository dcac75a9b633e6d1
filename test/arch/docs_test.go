package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedPath finds paths of this repository in backticks, and the targets of relative links.
var namedPath = regexp.MustCompile("`((?:api|cmd|sharding|controllers|deploy|dashboards|examples|test|tools|docs)/[A-Za-z0-9_./-]*)`|\\]\\(([A-Za-z0-9_./-]+)\\)")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestDocumentsNameWhatExists finds documents that were left behind when a file moved. A path in backticks
// begins at the root, or where the document is.
func TestDocumentsNameWhatExists(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/design/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	checked := 0
	for _, document := range documents {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range namedPath.FindAllStringSubmatch(string(content), -1) {
			checked++
			beside := exists(filepath.Join(filepath.Dir(document), match[1]+match[2]))
			if !beside && (match[1] == "" || !exists(filepath.Join(root, match[1]))) {
				t.Errorf("%s names %s, which is not there", strings.TrimPrefix(document, root+"/"), match[1]+match[2])
			}
		}
	}
	if checked < 50 {
		t.Errorf("found only %d paths in the documents", checked)
	}
}
