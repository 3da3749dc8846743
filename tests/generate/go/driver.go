// The driver of the generated Go: `driver encode`, `driver decode`, or `driver run HOST PORT`.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"

	"tautwire.invalid/generated/contracts"
)

type codec struct {
	name  string
	value any
	write func(any) ([]byte, error)
	read  func([]byte) (any, error)
}

func protobuf[T any, P interface {
	*T
	MarshalProtobuf() []byte
	UnmarshalProtobuf([]byte) error
}](name string, value P) codec {
	write := func(value any) ([]byte, error) { return value.(P).MarshalProtobuf(), nil }
	return codec{name, value, write, func(payload []byte) (any, error) {
		found := P(new(T))
		return found, found.UnmarshalProtobuf(payload)
	}}
}

func json[T any, P interface {
	*T
	MarshalJSON() ([]byte, error)
	UnmarshalJSON([]byte) error
}](name string, value P) codec {
	write := func(value any) ([]byte, error) { return value.(P).MarshalJSON() }
	return codec{name, value, write, func(payload []byte) (any, error) {
		found := P(new(T))
		return found, found.UnmarshalJSON(payload)
	}}
}

func messagePack[T any, P interface {
	*T
	MarshalMessagePack() ([]byte, error)
	UnmarshalMessagePack([]byte) error
}](name string, value P) codec {
	write := func(value any) ([]byte, error) { return value.(P).MarshalMessagePack() }
	return codec{name, value, write, func(payload []byte) (any, error) {
		found := P(new(T))
		return found, found.UnmarshalMessagePack(payload)
	}}
}

var codecs = []codec{
	protobuf("everything", everything()),
	protobuf("everything-empty", &contracts.Everything{}),
	json("mapped-json", mapped()),
	messagePack("mapped-pack", packed()),
	messagePack("mapped-empty", &contracts.Mapped{}),
	protobuf("old", old()),
	json("lamp", lamp(true)),
	messagePack("lamp_pack", lamp(false)),
	messagePack("samples", samples()),
}

func encode() error {
	for _, c := range codecs {
		bytes, err := c.write(c.value)
		if err != nil {
			return err
		}
		found, err := c.read(bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if !reflect.DeepEqual(found, c.value) {
			return fmt.Errorf("%s: %+v", c.name, found)
		}
		fmt.Println(c.name, hex.EncodeToString(bytes))
	}
	return nil
}

// decode reads each line `NAME HEX` of standard input, decodes and encodes it, and prints the result, or `error`.
func decode() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, digits, _ := strings.Cut(lines.Text(), " ")
		payload, err := hex.DecodeString(digits)
		if err != nil {
			return err
		}
		fmt.Println(again(name, payload))
	}
	return lines.Err()
}

func again(name string, payload []byte) string {
	at := slices.IndexFunc(codecs, func(c codec) bool { return c.name == name })
	if at < 0 {
		return "unknown"
	}
	found, err := codecs[at].read(payload)
	if err != nil {
		return "error"
	}
	bytes, err := codecs[at].write(found)
	if err != nil {
		return "error"
	}
	return hex.EncodeToString(bytes)
}

// one returns the next message, published by publish after the subscription.
func one[T, V any](
	ctx context.Context, subscription *contracts.Subscription[T, V], err error, publish func() error,
) (*contracts.Received[T, V], error) {
	if err != nil {
		return nil, err
	}
	defer subscription.Unsubscribe(ctx)
	if err := publish(); err != nil {
		return nil, err
	}
	for received, err := range subscription.Messages(ctx) {
		return received, err
	}
	return nil, errors.New("the subscription has ended")
}

// same reports differences.
func same[T, V any](received *contracts.Received[T, V], err error, topic T, value *V) error {
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(received.Topic, topic) || !reflect.DeepEqual(received.Value, value) {
		return fmt.Errorf("%+v %+v", received.Topic, received.Value)
	}
	return nil
}

func isRefused(err error) error {
	var failure *client.Error
	if errors.As(err, &failure) && failure.Reason == packets.ReasonPayloadFormatInvalid {
		return nil
	}
	return fmt.Errorf("not refused: %w", err)
}

var (
	send = client.Publication{QoS: packets.AtLeastOnce}
	take = client.SubscribeOptions{QoS: packets.AtLeastOnce}
)

func testEverything(ctx context.Context, c *client.Client) error {
	topic := contracts.EverythingTopic{PlantID: "7", Level3: "hall 3"}
	subscription, err := contracts.SubscribeEverything(ctx, c, take)
	received, err := one(ctx, subscription, err, func() error {
		return contracts.PublishEverything(ctx, c, topic, everything(), send)
	})
	return same(received, err, topic, everything())
}

func testMapped(ctx context.Context, c *client.Client) error {
	topic := contracts.MappedJSONTopic{PlantID: "7"}
	subscription, err := contracts.SubscribeMappedJSON(ctx, c, take)
	received, err := one(ctx, subscription, err, func() error {
		return contracts.PublishMappedJSON(ctx, c, topic, mapped(), send)
	})
	if err := same(received, err, topic, mapped()); err != nil {
		return err
	}
	pack, err := contracts.SubscribeMappedPack(ctx, c, take)
	other, err := one(ctx, pack, err, func() error {
		return contracts.PublishMappedPack(ctx, c, contracts.MappedPackTopic(topic), packed(), send)
	})
	return same(other, err, contracts.MappedPackTopic(topic), packed())
}

func testPlain(ctx context.Context, c *client.Client) error {
	olds, err := contracts.SubscribeOld(ctx, c, take)
	first, err := one(ctx, olds, err, func() error {
		return contracts.PublishOld(ctx, c, contracts.OldTopic{}, old(), send)
	})
	if err := same(first, err, contracts.OldTopic{}, old()); err != nil {
		return err
	}
	topic := contracts.LampTopic{Room: "hall", Type: "x"}
	lamps, err := contracts.SubscribeLamp(ctx, c, take)
	second, err := one(ctx, lamps, err, func() error { return contracts.PublishLamp(ctx, c, topic, lamp(true), send) })
	if err := same(second, err, topic, lamp(true)); err != nil {
		return err
	}
	numbers, err := contracts.SubscribeSamples(ctx, c, take)
	third, err := one(ctx, numbers, err, func() error {
		return contracts.PublishSamples(ctx, c, contracts.SamplesTopic{}, samples(), send)
	})
	return same(third, err, contracts.SamplesTopic{}, samples())
}

func testHandler(ctx context.Context, c *client.Client) error {
	found := make(chan *contracts.Samples, 1)
	handle := func(_ context.Context, received *contracts.Received[contracts.SamplesTopic, contracts.Samples], _ error) {
		found <- received.Value
	}
	subscription, err := contracts.HandleSamples(ctx, c, take, handle)
	if err != nil {
		return err
	}
	defer subscription.Unsubscribe(ctx)
	if err := contracts.PublishSamples(ctx, c, contracts.SamplesTopic{}, samples(), send); err != nil {
		return err
	}
	select {
	case value := <-found:
		if !reflect.DeepEqual(value, samples()) {
			return fmt.Errorf("%+v", value)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func testRefused(ctx context.Context, c *client.Client) error {
	bright := lamp(true)
	bright.Brightness = to(int64(101))
	raw := send
	raw.Topic, raw.Payload = "samples", []byte{0x91, 0xc3}
	bad := contracts.PublishLamp(ctx, c, contracts.LampTopic{Room: "a/b", Type: "x"}, lamp(true), send)
	var payload *contracts.PayloadError
	if !errors.As(bad, &payload) {
		return fmt.Errorf("a level with /: %w", bad)
	}
	return errors.Join(
		isRefused(contracts.PublishLamp(ctx, c, contracts.LampTopic{Room: "hall", Type: "x"}, bright, send)),
		isRefused(contracts.PublishEverything(ctx, c, contracts.EverythingTopic{PlantID: "8", Level3: "x"}, everything(), send)),
		isRefused(c.Publish(ctx, raw)),
	)
}

func testTranscoded(ctx context.Context, c *client.Client) error {
	text, err := lamp(true).MarshalJSON()
	if err != nil {
		return err
	}
	raw := send
	raw.Topic, raw.Payload, raw.ContentType = "packed-lamps/a/b", text, "application/json"
	subscription, err := contracts.SubscribeLampPack(ctx, c, take)
	received, err := one(ctx, subscription, err, func() error { return c.Publish(ctx, raw) })
	return same(received, err, contracts.LampPackTopic{Rest: "a/b"}, lamp(false))
}

func testInvalid(ctx context.Context, c *client.Client) error {
	subscription, err := contracts.SubscribeObserved(ctx, c, take)
	if err != nil {
		return err
	}
	defer subscription.Unsubscribe(ctx)
	raw := send
	raw.Topic, raw.Payload = "observed/1", []byte{0x0a, 5, 65}
	if err := c.Publish(ctx, raw); err != nil {
		return err
	}
	if err := contracts.PublishObserved(ctx, c, contracts.ObservedTopic{PlantID: "2"}, old(), send); err != nil {
		return err
	}
	count := 0
	for received, err := range subscription.Messages(ctx) {
		if count++; count == 2 {
			return same(received, err, contracts.ObservedTopic{PlantID: "2"}, old())
		}
		var payload *contracts.PayloadError
		if !errors.As(err, &payload) || payload.Offset != 2 || received.Topic.PlantID != "1" || received.Value != nil {
			return fmt.Errorf("%+v: %w", received, err)
		}
	}
	return errors.New("the subscription has ended")
}

func run(host, port string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, "mqtt://"+host+":"+port, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var failed error
	for _, test := range []struct {
		name string
		run  func(context.Context, *client.Client) error
	}{
		{"everything", testEverything}, {"mapped", testMapped}, {"plain", testPlain}, {"handler", testHandler},
		{"refused", testRefused}, {"transcoded", testTranscoded}, {"invalid", testInvalid},
	} {
		if err := test.run(ctx, c); err != nil {
			fmt.Printf("FAIL %s: %v\n", test.name, err)
			failed = errors.New("a case has failed")
		} else {
			fmt.Println("ok", test.name)
		}
	}
	return failed
}

func main() {
	err := errors.New("usage: driver encode | driver decode | driver run HOST PORT")
	switch {
	case len(os.Args) == 2 && os.Args[1] == "encode":
		err = encode()
	case len(os.Args) == 2 && os.Args[1] == "decode":
		err = decode()
	case len(os.Args) == 4 && os.Args[1] == "run":
		err = run(os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
