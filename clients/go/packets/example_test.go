package packets_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func Example() {
	p, err := packets.NewPublish("sensors/kitchen", []byte("21.5"))
	if err != nil {
		log.Fatal(err)
	}
	p.SetMessageExpiryInterval(60)

	var connection bytes.Buffer
	if _, err := p.WriteTo(&connection); err != nil {
		log.Fatal(err)
	}

	received, err := packets.ReadPacket(&connection, packets.Options{MaxPacketSize: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	switch p := received.(type) {
	case *packets.Publish:
		fmt.Printf("%s: %s\n", p.Topic(), p.Payload())
	default:
		fmt.Println(p)
	}
	// Output: sensors/kitchen: 21.5
}

// Setters refuse what the standard does not allow, and name the statement.
func ExamplePublish_SetTopic() {
	p := &packets.Publish{}
	err := p.SetTopic("sensors/#")
	fmt.Println(err)
	fmt.Println(errors.Is(err, packets.CauseTopicWildcard))
	// Output:
	// topic: the topic name contains + or #: publish to one exact topic [topic_wildcard] at byte 8 (MQTT-3.3.2-2)
	// true
}

func ExamplePublish_WellFormed() {
	p, err := packets.NewPublish("sensors/kitchen", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.SetQoS(packets.AtLeastOnce); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.WellFormed())
	// Output: packet_id: the packet identifier is 0: use 1 to 65535 [packet_id_zero] (MQTT-2.2.1-3)
}

// A Reader reads without allocating. Its packets are valid until the next call; Clone makes a permanent copy.
func ExampleReader() {
	stream := bytes.NewReader([]byte("\x30\x07\x00\x01a\x00one\x30\x07\x00\x01b\x00two"))
	reader := packets.NewReader(stream, packets.Options{})
	var kept []*packets.Publish
	for {
		p, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if p, ok := p.(*packets.Publish); ok {
			kept = append(kept, p.Clone())
		}
	}
	for _, p := range kept {
		fmt.Println(p)
	}
	// Output:
	// PUBLISH topic="a" qos=0 payload=<3 bytes>
	// PUBLISH topic="b" qos=0 payload=<3 bytes>
}

// Decode works on bytes from any source, and returns how many are needed.
func ExampleDecode() {
	input := []byte{0xD0}
	_, _, err := packets.Decode(input, packets.Options{})
	var problem *packets.Error
	if errors.As(err, &problem) && problem.Cause == packets.CauseIncomplete {
		fmt.Printf("got %d byte, need %d\n", len(input), problem.Needed)
	}
	p, n, err := packets.Decode(append(input, 0x00), packets.Options{})
	fmt.Println(p, n, err)
	// Output:
	// got 1 byte, need 2
	// PINGRESP 2 <nil>
}

func ExampleConnect() {
	p, err := packets.NewConnect("kitchen-17")
	if err != nil {
		log.Fatal(err)
	}
	p.SetKeepAlive(30)
	p.SetSessionExpiryInterval(3600)
	if err := p.SetPassword([]byte("correct horse")); err != nil {
		log.Fatal(err)
	}
	will, err := packets.NewWill("sensors/kitchen/gone", nil)
	if err != nil {
		log.Fatal(err)
	}
	p.SetWill(will)
	fmt.Println(p)

	p.SetVersion(packets.V311)
	fmt.Println(p.WellFormed())
	// Output:
	// CONNECT version=5.0 client_id="kitchen-17" clean_start=true keep_alive_s=30 will.topic="sensors/kitchen/gone" will.qos=0 will.payload=<0 bytes> password=<13 bytes> session_expiry_interval=3600
	// properties: this version of the protocol cannot express it: leave it out, or use MQTT 5.0 [not_in_version]
}

func ExampleSubscribe() {
	p, err := packets.NewSubscribe(1)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Add("sensors/+", packets.SubscriptionOptions{QoS: packets.AtLeastOnce}); err != nil {
		log.Fatal(err)
	}
	for filter, options := range p.Requests() {
		fmt.Println(filter, options.QoS)
	}
	// Output: sensors/+ QoS 1
}

func ExampleMatchTopic() {
	fmt.Println(packets.MatchTopic("sensors/+/temperature", "sensors/kitchen/temperature"))
	fmt.Println(packets.MatchTopic("$share/workers/jobs/#", "jobs/7"))
	fmt.Println(packets.MatchTopic("#", "$SYS/uptime"))
	// Output:
	// true
	// true
	// false
}

// Raw builds invalid packets, to test the peer.
func ExampleRaw() {
	b := packets.NewRaw(0x36).Text("a/b").Uint16(1).Build()
	_, _, err := packets.Decode(b, packets.Options{})
	fmt.Println(err)
	// Output: both QoS bits of PUBLISH are set: send QoS 0, 1 or 2 [publish_qos_three] at byte 0 (MQTT-3.3.1-4)
}

func ExamplePacket_dump() {
	p := &packets.PubAck{}
	if err := errors.Join(p.SetPacketID(7), p.SetReason(packets.ReasonNoMatchingSubscribers)); err != nil {
		log.Fatal(err)
	}
	fmt.Print(p.Dump())
	// Output:
	// PUBACK, MQTT 5.0, 5 bytes
	//   packet_id: 7
	//   reason: No matching subscribers (0x10)
	//   on the wire:
	//     00000000  40 03 00 07 10                                    |@....|
}
