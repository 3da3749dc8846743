package bench

import (
	"bytes"
	"io"

	"github.com/eclipse/paho.golang/packets"
)

func paho(w workload) library {
	build := pahoPublish
	if w.packetType == "connect" {
		build = pahoConnect
	}
	p := build(w.withProperties)
	return library{
		name:  "paho",
		make:  func() any { return build(w.withProperties) },
		write: func(to *bytes.Buffer) error { _, err := p.WriteTo(to); return err },
		read: func(from *bytes.Reader) (int, error) {
			p, err := packets.ReadPacket(from)
			if err != nil {
				return 0, err
			}
			switch p := p.Content.(type) {
			case *packets.Publish:
				return len(p.Topic) + len(p.Payload) + int(p.PacketID) + int(p.QoS), nil
			case *packets.Connect:
				return int(p.KeepAlive) + int(*p.Properties.SessionExpiryInterval) + int(*p.Properties.ReceiveMaximum), nil
			}
			return 0, nil
		},
	}
}

func pointerTo[T any](value T) *T { return &value }

func pahoUsers() (users []packets.User) {
	for _, u := range userProperties {
		users = append(users, packets.User{Key: u[0], Value: u[1]})
	}
	return users
}

func pahoPublish(withProperties bool) io.WriterTo {
	c := packets.NewControlPacket(packets.PUBLISH)
	p := c.Content.(*packets.Publish)
	p.Topic, p.Payload, p.QoS, p.PacketID = topic, payload, 1, packetID
	if withProperties {
		p.Properties = &packets.Properties{
			PayloadFormat: pointerTo(byte(1)), MessageExpiry: pointerTo(uint32(60)), ContentType: "text/plain",
			ResponseTopic: "replies/17", CorrelationData: []byte("request 17"), TopicAlias: pointerTo(uint16(3)),
			User: pahoUsers(),
		}
	}
	return c
}

func pahoConnect(bool) io.WriterTo {
	c := packets.NewControlPacket(packets.CONNECT)
	p := c.Content.(*packets.Connect)
	p.ClientID, p.CleanStart, p.KeepAlive = clientID, true, keepAlive
	p.Username, p.UsernameFlag, p.Password, p.PasswordFlag = userName, true, password, true
	p.Properties = &packets.Properties{
		SessionExpiryInterval: pointerTo(uint32(3600)), ReceiveMaximum: pointerTo(uint16(100)),
		MaximumPacketSize: pointerTo(uint32(1 << 20)), TopicAliasMaximum: pointerTo(uint16(16)),
		RequestResponseInfo: pointerTo(byte(1)), AuthMethod: "SCRAM-SHA-256", AuthData: []byte("n,,n=kitchen"),
		User: pahoUsers(),
	}
	return c
}
