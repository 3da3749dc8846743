package contracts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/tautwire/tautwire/clients/go/client"
)

// depthMax is the maximum nesting of values.
const depthMax = 100

// PayloadError describes an invalid payload, or an invalid value or topic to publish.
type PayloadError struct {
	// Expected is what was expected.
	Expected string
	// Offset is the offset in the payload, in bytes; -1 if unknown.
	Offset int
}

// Error returns one line: what was expected, and where.
func (e *PayloadError) Error() string {
	if e.Offset < 0 {
		return "expected " + e.Expected
	}
	return fmt.Sprintf("expected %s at byte %d", e.Expected, e.Offset)
}

// Received is a message of a contract.
type Received[T, V any] struct {
	*client.Message
	// Topic has the parameters of the topic.
	Topic T
	// Value is the decoded payload.
	Value *V
}

// Subscription delivers the messages of a contract.
type Subscription[T, V any] struct {
	*client.Subscription
	receive func(*client.Message) (*Received[T, V], error)
}

// Messages returns the messages one after another. An invalid payload comes with an error that does not end the loop:
// Received then has the message without a value. Other errors end it, as in client.Subscription.Messages.
func (s *Subscription[T, V]) Messages(ctx context.Context) iter.Seq2[*Received[T, V], error] {
	return func(yield func(*Received[T, V], error) bool) {
		for message, err := range s.Subscription.Messages(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(s.receive(message)) {
				return
			}
		}
	}
}

// transcodingError is the user property of a message that the broker could not transcode to the requested format.
const transcodingError = "tautwire-transcoding-error"

func receive[T, V any](
	message *client.Message, parse func(string) (T, bool), read func([]byte) (*V, error),
) (*Received[T, V], error) {
	received := &Received[T, V]{Message: message}
	topic, ok := parse(message.Topic())
	if !ok {
		return received, &PayloadError{Expected: "a topic of the contract", Offset: -1}
	}
	received.Topic = topic
	for name, value := range message.UserProperties() {
		if name == transcodingError {
			return received, errors.New(value)
		}
	}
	value, err := read(message.Payload())
	if err != nil {
		return received, err
	}
	received.Value = value
	return received, nil
}

func subscribe[T, V any](
	ctx context.Context, c *client.Client, filter string, options client.SubscribeOptions,
	receive func(*client.Message) (*Received[T, V], error),
) (*Subscription[T, V], error) {
	subscription, err := c.Subscribe(ctx, filter, options)
	if err != nil {
		return nil, err
	}
	return &Subscription[T, V]{Subscription: subscription, receive: receive}, nil
}

// sortedBools returns the keys of a map, false before true.
func sortedBools[V any](entries map[bool]V) []bool {
	var keys []bool
	for _, key := range []bool{false, true} {
		if _, ok := entries[key]; ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// level checks that the text can be one level of a topic.
func level(name, text string) error {
	if strings.ContainsAny(text, "/+#\x00") {
		return &PayloadError{Expected: "no /, +, # and U+0000 in " + name, Offset: -1}
	}
	return nil
}

// levels checks that the text can be the last levels of a topic.
func levels(name, text string) error {
	if strings.ContainsAny(text, "+#\x00") {
		return &PayloadError{Expected: "no +, # and U+0000 in " + name, Offset: -1}
	}
	return nil
}
