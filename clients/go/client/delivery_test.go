package client_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

var versions = []packets.Version{packets.V311, packets.V5}

// The connection is cut at each step of the exchanges, before and after the step. In every case each message arrives exactly
// once at QoS 2 and at least once at QoS 1, in both directions, and in order.
func TestDisconnectAtAnyStepLosesNothing(t *testing.T) {
	for _, version := range versions {
		for _, qos := range []packets.QoS{qos1, qos2} {
			for _, after := range []bool{false, true} {
				// Until the run has fewer steps.
				for at := 1; ; at++ {
					b := newBroker()
					b.cut = func(string) (bool, bool) { return b.steps == at && !after, b.steps == at && after }
					if steps := exchange(t, b, version, qos, 3); steps < at {
						break
					}
					if t.Failed() {
						t.Fatalf("%v, %v, cut at step %d, after %v", version, qos, at, after)
					}
				}
			}
		}
	}
}

// The same with many random cuts, by seed.
func TestRandomDisconnectsLoseNothing(t *testing.T) {
	for seed := range int64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewSource(seed))
			b := newBroker()
			b.window = 1 + random.Intn(20)
			rate := 0.2 * random.Float64()
			cuts := 0
			b.cut = func(string) (bool, bool) {
				if cuts < 200 && random.Float64() < rate {
					cuts++
					return random.Intn(2) == 0, true
				}
				return false, false
			}
			exchange(t, b, versions[random.Intn(2)], packets.QoS(1+random.Intn(2)), 60)
		})
	}
}

// exchange sends messages in both directions, and checks what arrived. It returns the number of the broker's steps.
func exchange(t *testing.T, b *broker, version packets.Version, qos packets.QoS, messages int) (steps int) {
	t.Helper()
	ctx := testContext(t)
	f := newFake(t, b.hooks())
	var mutex sync.Mutex
	var arrived []string
	// A subscription of the options, so that no message can arrive before it.
	c := f.start(client.Options{
		Version: version, ClientID: "one", SessionExpiry: time.Minute, Limits: client.Limits{ReceiveMaximum: messages},
		Subscriptions: []client.InitialSubscription{{
			Filter: "down", Options: client.SubscribeOptions{QoS: qos2},
			Handler: func(_ context.Context, m *client.Message) {
				mutex.Lock()
				defer mutex.Unlock()
				arrived = append(arrived, string(m.Payload()))
			},
		}},
	})
	must(t, c.AwaitConnection(ctx))
	var sent []string
	var tokens []*client.Token
	for number := range messages {
		payload := fmt.Sprint(number)
		sent = append(sent, payload)
		token, err := c.PublishAsync(ctx, client.Publication{Topic: "up", Payload: []byte(payload), QoS: qos})
		must(t, err)
		tokens = append(tokens, token)
		b.publish("down", payload, qos)
	}
	for _, token := range tokens {
		must(t, outcome(ctx, token))
	}
	eventually(t, "the broker's messages are acknowledged", func() bool {
		_, undelivered := b.state()
		return undelivered == 0
	})
	published, _ := b.state()
	mutex.Lock()
	defer mutex.Unlock()
	check(t, "published", published, sent, qos)
	check(t, "arrived", arrived, sent, qos)
	closeNow(t, c)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.steps
}

// check compares got with want, ignoring repetitions at QoS 1 [MQTT-4.6.0-1].
func check(t *testing.T, what string, got, want []string, qos packets.QoS) {
	t.Helper()
	if qos == qos1 {
		// The first arrival of each.
		var firsts []string
		for _, each := range got {
			if !slices.Contains(firsts, each) {
				firsts = append(firsts, each)
			}
		}
		got = firsts
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
