package plan_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more tests run side by side than there are cores: those with real servers do little but wait for them.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
