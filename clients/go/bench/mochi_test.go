package bench

import (
	"bytes"
	"io"

	"github.com/mochi-mqtt/server/v2/packets"
)

// mochi has the codec of a server, but no function that reads a packet: this is the loop around its exported parts.
func mochi(w workload) library {
	build, encode := mochiPublish, (*packets.Packet).PublishEncode
	if w.packetType == "connect" {
		build, encode = mochiConnect, (*packets.Packet).ConnectEncode
	}
	p := build(w.withProperties)
	return library{
		name:  "mochi",
		make:  func() any { return build(w.withProperties) },
		write: func(to *bytes.Buffer) error { return encode(p, to) },
		read: func(from *bytes.Reader) (int, error) {
			p, err := mochiRead(from)
			if err != nil {
				return 0, err
			}
			if p.FixedHeader.Type == packets.Publish {
				return len(p.TopicName) + len(p.Payload) + int(p.PacketID) + int(p.FixedHeader.Qos), nil
			}
			return int(p.Connect.Keepalive) + int(p.Properties.SessionExpiryInterval) + int(p.Properties.ReceiveMaximum), nil
		},
	}
}

func mochiRead(from *bytes.Reader) (*packets.Packet, error) {
	first, err := from.ReadByte()
	if err != nil {
		return nil, err
	}
	p := &packets.Packet{ProtocolVersion: 5}
	if err := p.FixedHeader.Decode(first); err != nil {
		return nil, err
	}
	if p.FixedHeader.Remaining, _, err = packets.DecodeLength(from); err != nil {
		return nil, err
	}
	body := make([]byte, p.FixedHeader.Remaining)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, err
	}
	if p.FixedHeader.Type == packets.Publish {
		return p, p.PublishDecode(body)
	}
	return p, p.ConnectDecode(body)
}

func mochiUsers() (users []packets.UserProperty) {
	for _, u := range userProperties {
		users = append(users, packets.UserProperty{Key: u[0], Val: u[1]})
	}
	return users
}

func mochiPublish(withProperties bool) *packets.Packet {
	p := &packets.Packet{
		ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
		TopicName: topic, Payload: payload, PacketID: packetID,
		// Without it the response topic is omitted.
		Mods: packets.Mods{AllowResponseInfo: true},
	}
	if withProperties {
		p.Properties = packets.Properties{
			PayloadFormat: 1, PayloadFormatFlag: true, MessageExpiryInterval: 60, ContentType: "text/plain",
			ResponseTopic: "replies/17", CorrelationData: []byte("request 17"), TopicAlias: 3, TopicAliasFlag: true,
			User: mochiUsers(),
		}
	}
	return p
}

func mochiConnect(bool) *packets.Packet {
	return &packets.Packet{
		ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Connect},
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), ClientIdentifier: clientID, Clean: true, Keepalive: keepAlive,
			Username: []byte(userName), UsernameFlag: true, Password: password, PasswordFlag: true,
		},
		Properties: packets.Properties{
			SessionExpiryInterval: 3600, SessionExpiryIntervalFlag: true, ReceiveMaximum: 100,
			MaximumPacketSize: 1 << 20, TopicAliasMaximum: 16, RequestResponseInfo: 1,
			AuthenticationMethod: "SCRAM-SHA-256", AuthenticationData: []byte("n,,n=kitchen"), User: mochiUsers(),
		},
	}
}
