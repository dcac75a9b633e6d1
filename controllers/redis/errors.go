package redis

import (
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// ServerMessage is what the server itself answered, if err comes from an answer of a server and not from the way to it.
func ServerMessage(err error) (message string, ok bool) {
	var answer goredis.Error
	if errors.As(err, &answer) {
		return answer.Error(), true
	}
	return "", false
}
