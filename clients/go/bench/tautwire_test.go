package bench

import (
	"bytes"
	"io"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func librariesFor(w workload) []library {
	all := []library{ours(w), oursAppend(w), oursReader(w), oursDecoder(w), gregoryv(w), paho(w), mochi(w)}
	if natiu, ok := natiu(w); ok {
		all = append(all, natiu)
	}
	return all
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// ours makes packets with constructors and setters, which validate, and reads packets that own their
// memory.
func ours(w workload) library {
	build := buildPublish
	if w.packetType == "connect" {
		build = buildConnect
	}
	p := build(w.withProperties)
	return library{
		name:  "tautwire",
		make:  func() any { return build(w.withProperties) },
		write: func(to *bytes.Buffer) error { _, err := p.WriteTo(to); return err },
		read: func(from *bytes.Reader) (int, error) {
			p, err := packets.ReadPacket(from, packets.Options{})
			if err != nil {
				return 0, err
			}
			return look(p), nil
		},
	}
}

// oursAppend writes without a writer.
func oursAppend(w workload) library {
	p := ours(w).make().(packets.Packet)
	buffer := make([]byte, 0, 512)
	return library{name: "tautwire-append", write: func(*bytes.Buffer) (err error) {
		_, err = p.AppendTo(buffer)
		return err
	}}
}

// oursReader reads views, and reads ahead.
func oursReader(workload) library {
	return library{name: "tautwire-reader", stream: func(from io.Reader) func() (int, error) {
		r := packets.NewReader(from, packets.Options{})
		return func() (int, error) {
			p, err := r.Next()
			if err != nil {
				return 0, err
			}
			return look(p), nil
		}
	}}
}

// oursDecoder reads views of a slice.
func oursDecoder(w workload) library {
	var to bytes.Buffer
	must(ours(w).write(&to))
	input := to.Bytes()
	var d packets.Decoder
	return library{name: "tautwire-decoder", stream: func(io.Reader) func() (int, error) {
		return func() (int, error) {
			p, _, err := d.Decode(input, packets.Options{})
			if err != nil {
				return 0, err
			}
			return look(p), nil
		}
	}}
}

func buildPublish(withProperties bool) packets.Packet {
	p, err := packets.NewPublish(topic, payload)
	must(err)
	must(p.SetQoS(packets.AtLeastOnce))
	must(p.SetPacketID(packetID))
	if withProperties {
		must(p.SetPayloadFormat(packets.PayloadUTF8))
		p.SetMessageExpiryInterval(60)
		must(p.SetContentType("text/plain"))
		must(p.SetResponseTopic("replies/17"))
		must(p.SetCorrelationData([]byte("request 17")))
		must(p.SetTopicAlias(3))
		for _, u := range userProperties {
			must(p.AddUserProperty(u[0], u[1]))
		}
	}
	return p
}

func buildConnect(bool) packets.Packet {
	p, err := packets.NewConnect(clientID)
	must(err)
	p.SetKeepAlive(keepAlive)
	must(p.SetUserName(userName))
	must(p.SetPassword(password))
	p.SetSessionExpiryInterval(3600)
	must(p.SetReceiveMaximum(100))
	must(p.SetMaximumPacketSize(1 << 20))
	p.SetTopicAliasMaximum(16)
	p.SetRequestResponseInformation(true)
	must(p.SetAuthenticationMethod("SCRAM-SHA-256"))
	must(p.SetAuthenticationData([]byte("n,,n=kitchen")))
	for _, u := range userProperties {
		must(p.AddUserProperty(u[0], u[1]))
	}
	return p
}

func look(p packets.Packet) int {
	switch p := p.(type) {
	case *packets.Publish:
		return len(p.TopicView()) + len(p.Payload()) + int(p.PacketID()) + int(p.QoS())
	case *packets.Connect:
		return int(p.KeepAlive()) + int(p.SessionExpiryInterval()) + int(p.ReceiveMaximum())
	}
	return 0
}
