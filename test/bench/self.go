package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// selfProcess is this program, started again as a child that does one thing.
type selfProcess struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  io.Reader
}

// startSelf starts this program again, with the settings as JSON in the environment variable that says what
// the child is to do. It is killed when ctx ends.
func startSelf(ctx context.Context, variable string, settings any) (*selfProcess, error) {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("writing down its settings: %w", err)
	}
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	command := exec.CommandContext(ctx, path)
	command.Env = append(os.Environ(), variable+"="+string(encoded))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &selfProcess{command: command, input: input, output: output}, nil
}
