package stage

import (
	"context"
	"fmt"
	"time"
)

// pollInterval is how often Wait looks: short against everything that is waited for.
const pollInterval = 100 * time.Millisecond

// Wait calls check until it says that nothing is missing (""), fails, or the context ends. The
// error then names what was waited for and what check last said was missing.
func (s *Stage) Wait(ctx context.Context, what string, check func() (missing string, err error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		missing, err := check()
		if err == nil && missing == "" {
			return nil
		}
		if err != nil {
			missing = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last seen: %s", what, context.Cause(ctx), missing)
		case <-ticker.C:
		}
	}
}
