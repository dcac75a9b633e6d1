package claim

import "time"

// echo watches for own writes to come back on the watch. Pure, not safe for concurrent use.
type echo struct {
	oldest, latest sighting // versions written and not seen yet; zero if all were
	seen           string   // the version seen last
}

type sighting struct {
	version string
	at      time.Time
}

// wrote takes in an own write. The watch may have been faster than its answer.
func (e *echo) wrote(version string, now time.Time) {
	if e.seen != "" && !isNewer(version, e.seen) {
		return
	}
	e.latest = sighting{version, now}
	if e.oldest.version == "" {
		e.oldest = e.latest
	}
}

// observed takes in a version shown by the watch. If it lies between the oldest and the latest write,
// the lag is counted from the latest, which is short of the truth by a retry period or so.
func (e *echo) observed(version string) {
	if e.seen == "" || isNewer(version, e.seen) {
		e.seen = version
	}
	switch {
	case e.oldest.version == "" || isNewer(e.oldest.version, version):
	case isNewer(e.latest.version, version):
		e.oldest = e.latest
	default:
		e.oldest, e.latest = sighting{}, sighting{}
	}
}

func (e *echo) lag(now time.Time) time.Duration {
	if e.oldest.version == "" {
		return 0
	}
	return now.Sub(e.oldest.at)
}
