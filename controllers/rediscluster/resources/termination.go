package resources

import "strings"

// maxReasonLength bounds what is quoted of a container's last words.
const maxReasonLength = 300

// TerminationReason picks from the last output of a node's container the lines that say why it ended:
// the server's complaint about its configuration, what the entry program said, or else the last line.
// It is on one line, and empty when there was no output.
func TerminationReason(message string) string {
	var last string
	var complaint []string
	isComplaint := false
	for line := range strings.Lines(message) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.Contains(line, "FATAL CONFIG FILE ERROR"):
			isComplaint, complaint = true, nil
		case isComplaint && !strings.HasPrefix(line, "Reading the configuration file"):
			complaint = append(complaint, line)
		case strings.HasPrefix(line, "entrypoint: "):
			last = strings.TrimPrefix(line, "entrypoint: ")
			continue
		}
		last = line
	}
	if len(complaint) > 0 {
		last = strings.TrimPrefix(strings.Join(complaint, ": "), ">>> ")
	}
	if len(last) > maxReasonLength {
		last = last[:maxReasonLength] + "..."
	}
	return strings.ToValidUTF8(last, "?")
}
