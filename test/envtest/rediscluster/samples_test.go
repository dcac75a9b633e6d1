package rediscluster

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func TestSamplesAreAccepted(t *testing.T) {
	namespace := newQuietNamespace(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "deploy", "samples", "cache_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range bytes.Split(content, []byte("\n---\n")) {
				object := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
					t.Fatal(err)
				}
				object.SetNamespace(namespace)
				strict := &client.CreateOptions{FieldValidation: "Strict", DryRun: []string{"All"}}
				if err := suite.client.Create(t.Context(), object, strict); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
