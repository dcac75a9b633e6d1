// Command generate writes the dashboards and their README into the folder that it is given.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"example.com/redis-operator/test/dashboards"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	files := map[string][]byte{"README.md": dashboards.Readme(dashboards.All())}
	for _, d := range dashboards.All() {
		content, err := d.JSON()
		if err != nil {
			return err
		}
		files[d.File] = content
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
