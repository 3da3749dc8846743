package client

import (
	"math/rand/v2"
	"time"
)

// backoff gives random times up to a limit that doubles, so that clients that lost a server together do not come back
// together.
type backoff struct {
	least, most, limit time.Duration
}

func (b *backoff) next() time.Duration {
	least := min(b.least, b.most)
	b.limit = min(max(2*b.limit, 2*least), b.most)
	return least/2 + rand.N(max(b.limit-least/2, 1))
}

func (b *backoff) reset() { b.limit = 0 }
