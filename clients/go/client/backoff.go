package client

import (
	"math/rand/v2"
	"time"
)

// backoff returns delays that double up to the maximum, each random between half of it and all of it, so that clients that lost a
// server together do not reconnect together.
type backoff struct {
	least, most, limit time.Duration
}

func (b *backoff) next() time.Duration {
	b.limit = min(max(2*b.limit, b.least), b.most)
	return b.limit - rand.N(b.limit/2+1)
}

func (b *backoff) reset() { b.limit = 0 }
