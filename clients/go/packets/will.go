package packets

import "bytes"

// Will is the message that the server publishes if the connection is lost (section 3.1.2.5), a part of CONNECT.
type Will struct {
	topic   string
	payload []byte
	props
	qos    QoS
	retain bool
}

// NewWill creates a QoS 0 message. The payload, at most 65,535 bytes, is not copied.
func NewWill(topic string, payload []byte) (*Will, error) {
	w := &Will{}
	if err := w.SetTopic(topic); err != nil {
		return nil, err
	}
	if err := w.SetPayload(payload); err != nil {
		return nil, err
	}
	return w, nil
}

// Topic returns the topic name.
func (p *Will) Topic() string { return p.text(p.topic) }

// SetTopic sets the topic name. It fails if that is invalid [MQTT-4.7.0-1].
func (p *Will) SetTopic(topic string) error {
	if err := CheckTopicName(topic); err != nil {
		return err
	}
	p.topic = topic
	return nil
}

// Payload returns the payload. That of a packet from a [Decoder] or [Reader] is valid until the next call.
func (p *Will) Payload() []byte { return p.payload }

// SetPayload sets the payload. It is not copied. It fails above 65,535 bytes.
func (p *Will) SetPayload(payload []byte) error {
	if len(payload) > maxFieldBytes {
		return fieldError(CauseFieldTooLong, "will.payload")
	}
	p.payload = payload
	return nil
}

// QoS returns the quality of service.
func (p *Will) QoS() QoS { return p.qos }

// SetQoS sets the quality of service.
func (p *Will) SetQoS(qos QoS) error {
	if qos > ExactlyOnce {
		return fieldError(CauseWillQoSThree, "will.qos")
	}
	p.qos = qos
	return nil
}

// Retain reports whether it is published as a retained message.
func (p *Will) Retain() bool { return p.retain }

// SetRetain sets whether it is published as a retained message.
func (p *Will) SetRetain(retain bool) { p.retain = retain }

// Clone copies the will into memory of its own.
func (p *Will) Clone() *Will {
	c := p.cloneWith(make([]byte, 0, p.memory()))
	return &c
}

func (p *Will) memory() int { return len(p.topic) + len(p.payload) + len(p.block) }

// cloneWith copies the will into memory with enough capacity.
func (p *Will) cloneWith(memory []byte) Will {
	c := Will{qos: p.qos, retain: p.retain}
	memory, c.topic = cloneText(memory, p.topic)
	memory, c.payload = cloneBytes(memory, p.payload)
	_, c.props = p.cloneInto(memory)
	return c
}

func (p *Will) decode(flags byte, body []byte, at int, version Version, mode uint32) (next int, cause Cause) {
	p.seen = mode
	if version == V5 {
		if at, cause = p.props.decode(body, at, inWill, mode); cause != causeNone {
			return at, cause
		}
	}
	n := fieldLen(body[at:])
	if n == 0 {
		return at, CauseFieldPastEnd
	}
	topic := body[at+2 : at+n]
	if cause, failedAt := willTopicFault(topic); cause != causeNone {
		return at + 2 + failedAt, cause
	}
	p.topic = viewString(topic)
	at += n
	if n = fieldLen(body[at:]); n == 0 {
		return at, CauseFieldPastEnd
	}
	p.payload = body[at+2 : at+n : at+n]
	p.qos, p.retain = QoS(flags&connectWillQoS>>3), flags&connectWillRetain != 0
	return at + n, causeNone
}

func willTopicFault(topic []byte) (Cause, int) {
	if len(topic) == 0 {
		return CauseWillTopicInvalid, 0
	}
	cause, at := topicFault(topic)
	// If there are both a wildcard and U+0000, report the first one.
	if wildcard := bytes.IndexAny(topic, "+#"); wildcard >= 0 && wildcard <= at && cause != CauseUTF8Invalid {
		return CauseWillTopicInvalid, wildcard
	}
	return cause, at
}

func (p *Will) describe(d *description) {
	d.add("will.topic", p.topic)
	d.add("will.qos", uint8(p.qos))
	d.addIf(p.retain, "will.retain", true)
	d.payload("will.payload", p.payload)
	d.properties("will.", p.Properties())
}
