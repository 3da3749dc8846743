package bench

import (
	"bytes"
	"io"

	mqtt "github.com/soypat/natiu-mqtt"
)

const natiuName = "natiu-3.1.1"

// natiu speaks MQTT 3.1.1: its packets have no properties and are shorter. It reads into memory of the caller.
func natiu(w workload) (library, bool) {
	to := &closer{}
	var tx mqtt.Tx
	tx.SetTxTransport(to)
	flags, err := mqtt.NewPublishFlags(mqtt.QoS1, false, false)
	must(err)
	decoder := mqtt.DecoderNoAlloc{UserBuffer: make([]byte, 1024)}
	switch {
	case w.packetType == "connect":
		var v mqtt.VariablesConnect
		v.SetDefaultMQTT([]byte(clientID))
		v.KeepAlive, v.Username, v.Password = keepAlive, []byte(userName), password
		return library{
			name:  natiuName,
			write: func(b *bytes.Buffer) error { to.Writer = b; return tx.WriteConnect(&v) },
			stream: natiuStream(func(b *bytes.Buffer) error { to.Writer = b; return tx.WriteConnect(&v) },
				func(from io.Reader, _ mqtt.Header) (int, error) {
					v, _, err := decoder.DecodeConnect(from)
					return int(v.KeepAlive) + len(v.ClientID), err
				}),
		}, true
	case w.withProperties:
		return library{}, false
	}
	v := mqtt.VariablesPublish{TopicName: []byte(topic), PacketIdentifier: packetID}
	write := func(b *bytes.Buffer) error {
		to.Writer = b
		h, err := mqtt.NewHeader(mqtt.PacketPublish, flags, uint32(v.Size(mqtt.QoS1)+len(payload)))
		if err != nil {
			return err
		}
		return tx.WritePublishPayload(h, v, payload)
	}
	body := make([]byte, len(payload))
	return library{
		name:  natiuName,
		write: write,
		stream: natiuStream(write, func(from io.Reader, h mqtt.Header) (int, error) {
			v, _, err := decoder.DecodePublish(from, h.Flags().QoS())
			if err != nil {
				return 0, err
			}
			n, err := io.ReadFull(from, body)
			return n + len(v.TopicName) + int(v.PacketIdentifier), err
		}),
	}, true
}

// natiuStream reads what natiu has written.
func natiuStream(write func(*bytes.Buffer) error, decode func(io.Reader, mqtt.Header) (int, error)) func(io.Reader) func() (int, error) {
	return func(io.Reader) func() (int, error) {
		var b bytes.Buffer
		must(write(&b))
		input := bytes.Clone(b.Bytes())
		from := bytes.NewReader(input)
		return func() (int, error) {
			from.Reset(input)
			h, _, err := mqtt.DecodeHeader(from)
			if err != nil {
				return 0, err
			}
			return decode(from, h)
		}
	}
}

type closer struct{ io.Writer }

func (*closer) Close() error { return nil }
