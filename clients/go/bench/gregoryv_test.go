package bench

import (
	"bytes"
	"io"

	"github.com/gregoryv/mq"
)

func gregoryv(w workload) library {
	build := gregoryvPublish
	if w.packetType == "connect" {
		build = gregoryvConnect
	}
	p := build(w.withProperties)
	return library{
		name:  "gregoryv",
		make:  func() any { return build(w.withProperties) },
		write: func(to *bytes.Buffer) error { _, err := p.WriteTo(to); return err },
		read: func(from *bytes.Reader) (int, error) {
			p, err := mq.ReadPacket(from)
			if err != nil {
				return 0, err
			}
			switch p := p.(type) {
			case *mq.Publish:
				return len(p.TopicName()) + len(p.Payload()) + int(p.PacketID()) + int(p.QoS()), nil
			case *mq.Connect:
				return int(p.KeepAlive()) + int(p.SessionExpiryInterval()) + int(p.ReceiveMax()), nil
			}
			return 0, nil
		},
	}
}

func gregoryvPublish(withProperties bool) io.WriterTo {
	p := mq.NewPublish()
	p.SetTopicName(topic)
	p.SetPayload(payload)
	p.SetQoS(1)
	p.SetPacketID(packetID)
	if withProperties {
		p.SetPayloadFormat(true)
		p.SetMessageExpiryInterval(60)
		p.SetContentType("text/plain")
		p.SetResponseTopic("replies/17")
		p.SetCorrelationData([]byte("request 17"))
		p.SetTopicAlias(3)
		for _, u := range userProperties {
			p.AddUserProp(u[0], u[1])
		}
	}
	return p
}

func gregoryvConnect(bool) io.WriterTo {
	p := mq.NewConnect()
	p.SetClientID(clientID)
	p.SetCleanStart(true)
	p.SetKeepAlive(keepAlive)
	p.SetUsername(userName)
	p.SetPassword(password)
	p.SetSessionExpiryInterval(3600)
	p.SetReceiveMax(100)
	p.SetMaxPacketSize(1 << 20)
	p.SetTopicAliasMax(16)
	p.SetRequestResponseInfo(true)
	p.SetAuthMethod("SCRAM-SHA-256")
	p.SetAuthData([]byte("n,,n=kitchen"))
	for _, u := range userProperties {
		p.AddUserProp(u[0], u[1])
	}
	return p
}
