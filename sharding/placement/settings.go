package placement

import "fmt"

const (
	// DefaultShards is the number of shards of an installation that does not choose one.
	DefaultShards = 64
	// MaxShards is the largest number of shards that an installation may have.
	MaxShards = 4096
	// HashFNV1aMix names the one hash that there is: FNV-1a with 64 bits over the bytes of the
	// namespace's name, then the finaliser of MurmurHash3 (three xor-shifts by 33 bits around two
	// multiplications), so that names that differ in their last digits alone spread evenly.
	HashFNV1aMix = "fnv1a64-mix"
)

// Settings decide which shard a namespace falls into. They are fixed for the life of an
// installation: two processes with different settings would both own one namespace.
type Settings struct {
	Shards int    // how many shards there are, 1 to MaxShards
	Hash   string // name of the hash, HashFNV1aMix
}

// DefaultSettings returns the settings of an installation that chooses none.
func DefaultSettings() Settings { return Settings{Shards: DefaultShards, Hash: HashFNV1aMix} }

// Validate returns an error that names the setting which is out of its range.
func (s Settings) Validate() error {
	if s.Shards < 1 || s.Shards > MaxShards {
		return &FieldError{Field: "shards", Problem: fmt.Sprintf("%d is not between 1 and %d", s.Shards, MaxShards)}
	}
	if s.Hash != HashFNV1aMix {
		return &FieldError{Field: "hash", Problem: fmt.Sprintf("%q is not known, only %q is", s.Hash, HashFNV1aMix)}
	}
	return nil
}

// String names both values as messages and annotations show them.
func (s Settings) String() string { return fmt.Sprintf("shards=%d hash=%s", s.Shards, s.Hash) }

// ShardOf returns the shard of a namespace: mix(hash(namespace)) mod S. It answers NoShard if the
// settings are not valid.
func (s Settings) ShardOf(namespace string) Shard {
	if s.Validate() != nil {
		return NoShard
	}
	return Shard(mix(fnv1a(namespace)) % uint64(s.Shards)) //nolint:gosec // G115: below MaxShards
}

// SettingsError says that something was written under other settings than those of this process.
type SettingsError struct {
	Ours, Theirs Settings
}

// Error names both values of both sides.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("settings differ: this process has %s, the installation has %s; "+
		"they cannot change while the installation lives", e.Ours, e.Theirs)
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// fnv1a is FNV-1a with 64 bits. It is spelt out since the placement of all namespaces of all
// installations hangs on it, and must not allocate.
func fnv1a[T ~string | ~[]byte](data T) uint64 {
	h := uint64(fnvOffset)
	for i := range len(data) {
		h = (h ^ uint64(data[i])) * fnvPrime
	}
	return h
}

// mix is the finaliser of MurmurHash3: each bit of the input changes every bit of the output with
// a chance of about one half. FNV-1a alone leaves names that differ in their last byte together.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
