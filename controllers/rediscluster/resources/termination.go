package resources

import "strings"

// fatalConfig is how a server begins its complaint about its configuration.
const fatalConfig = "FATAL CONFIG FILE ERROR"

// saysDirectives is how the entry program announces the directives that a server starts with.
const saysDirectives = "starting with directives "

// maxReasonLength bounds what is quoted of a container's last words.
const maxReasonLength = 300

// TerminatedWith is the hash of the directives with which a container that ended had started its server;
// empty when its last output does not tell.
func TerminatedWith(message string) string {
	_, rest, _ := strings.Cut(message, saysDirectives)
	hash, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(hash)
}

// IsRejection reports whether a container's last output says that the server rejected its configuration.
func IsRejection(message string) bool { return strings.Contains(message, fatalConfig) }

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
		case strings.Contains(line, fatalConfig):
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
