package bench

import (
	"testing"
	"time"
)

func TestServerStart(t *testing.T) {
	t.Parallel()
	log := "entrypoint: starting with directives e3b0c44298fc1c14\n" +
		"1:C 30 Nov 2026 13:22:19.123 # oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo\n" +
		"1:M 30 Nov 2026 13:22:20.456 * Ready to accept connections\n"
	got, err := serverStart(log)
	if want := time.Date(2026, 11, 30, 13, 22, 19, 123e6, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("read %v, %v instead of %v", got, err, want)
	}
	if _, err := serverStart("entrypoint: no configuration\n"); err == nil {
		t.Error("no error for the log of a server that never started")
	}
}
