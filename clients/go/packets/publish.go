package packets

import (
	"bytes"
	"io"
	"slices"
	"strings"
)

const (
	flagRetain = 0b0001
	flagsQoS   = 0b0110
	flagDup    = 0b1000
)

// Publish is PUBLISH: a message (section 3.3).
type Publish struct {
	topic   string
	payload []byte
	props
	packetID PacketID
	versioned
	flags byte
}

// NewPublish creates a QoS 0 message. The payload is not copied. The error is an [*Error] that says why topic is not a topic
// name.
func NewPublish(topic string, payload []byte) (*Publish, error) {
	p := &Publish{payload: payload}
	if err := p.SetTopic(topic); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypePublish].
func (p *Publish) Type() Type { return TypePublish }

// Topic returns the topic name; empty if a Topic Alias replaces it.
func (p *Publish) Topic() string { return p.text(p.topic) }

// TopicView is [Publish.Topic] without a copy: for a packet of a [Decoder] or [Reader] it is valid until the next call, and
// changes then. Do not keep it; it saves an allocation if you only inspect the topic.
func (p *Publish) TopicView() string { return p.topic }

// SetTopic sets the topic name. It fails if that is invalid [MQTT-3.3.2-2], or empty without a Topic Alias.
func (p *Publish) SetTopic(topic string) error {
	if topic == "" && p.has(TopicAlias) {
		p.topic = ""
		return nil
	}
	if err := CheckTopicName(topic); err != nil {
		return err
	}
	p.topic = topic
	return nil
}

// Payload returns the payload. That of a packet from a [Decoder] or [Reader] is valid until the next call.
func (p *Publish) Payload() []byte { return p.payload }

// SetPayload sets the payload. It is not copied.
func (p *Publish) SetPayload(payload []byte) { p.payload = payload }

// QoS returns the quality of service.
func (p *Publish) QoS() QoS { return QoS(p.flags & flagsQoS >> 1) }

// SetQoS sets the quality of service. QoS 0 clears the packet identifier [MQTT-2.2.1-2] and DUP [MQTT-3.3.1-2]; QoS 1 and 2
// require an identifier [MQTT-2.2.1-4].
func (p *Publish) SetQoS(qos QoS) error {
	if qos > ExactlyOnce {
		return fieldError(CauseQoSUnknown, "qos")
	}
	p.flags = p.flags&^flagsQoS | byte(qos)<<1
	if qos == AtMostOnce {
		p.packetID, p.flags = 0, p.flags&^flagDup
	}
	return nil
}

// PacketID returns the packet identifier; 0 for QoS 0.
func (p *Publish) PacketID() PacketID { return p.packetID }

// SetPacketID sets the packet identifier. It fails for 0 [MQTT-2.2.1-3], and for any other at QoS 0 [MQTT-2.2.1-2].
func (p *Publish) SetPacketID(id PacketID) error {
	if id == 0 {
		return fieldError(CausePacketIDZero, "packet_id")
	}
	if p.QoS() == AtMostOnce {
		return fieldError(CausePacketIDWithQoSZero, "packet_id")
	}
	p.packetID = id
	return nil
}

// Dup reports whether this is a retransmission.
func (p *Publish) Dup() bool { return p.flags&flagDup != 0 }

// SetDup marks a retransmission. It fails for QoS 0 [MQTT-3.3.1-2].
func (p *Publish) SetDup(dup bool) error {
	if dup && p.QoS() == AtMostOnce {
		return fieldError(CauseDupWithQoSZero, "dup")
	}
	p.setFlag(flagDup, dup)
	return nil
}

// Retain reports the retain flag. For a server: whether to retain the message; for a client, see Retain As Published (section
// 3.3.1.3).
func (p *Publish) Retain() bool { return p.flags&flagRetain != 0 }

// SetRetain sets the retain flag.
func (p *Publish) SetRetain(retain bool) { p.setFlag(flagRetain, retain) }

func (p *Publish) setFlag(flag byte, on bool) {
	p.flags &^= flag
	if on {
		p.flags |= flag
	}
}

// Reset resets the packet to its zero value. Its memory is not reused.
func (p *Publish) Reset() { *p = Publish{} }

// WellFormed implements [Packet].
func (p *Publish) WellFormed() error {
	if cause, field := p.fault(); cause != causeNone {
		return fieldError(cause, field)
	}
	if p.bodyLen() > MaxRemainingLength {
		return fieldError(CausePacketTooLarge, "remaining_length")
	}
	return nil
}

// Size implements [Packet].
func (p *Publish) Size() int {
	bodyLen := p.bodyLen()
	return 1 + varintLen(bodyLen) + bodyLen
}

// AppendTo implements [Packet].
func (p *Publish) AppendTo(dst []byte) ([]byte, error) {
	dst, ok := p.appendHead(dst, len(p.payload), true)
	if !ok {
		return dst, p.WellFormed()
	}
	return append(dst, p.payload...), nil
}

// AppendHeaderTo appends the packet without the payload, so that the payload can be sent without a copy, for example with
// [net.Buffers].
func (p *Publish) AppendHeaderTo(dst []byte) ([]byte, error) {
	dst, ok := p.appendHead(dst, 0, true)
	if !ok {
		return dst, p.WellFormed()
	}
	return dst, nil
}

// WriteTo implements [Packet].
func (p *Publish) WriteTo(w io.Writer) (int64, error) {
	if buffer, ok := w.(*bytes.Buffer); ok {
		encoded, err := p.AppendTo(buffer.AvailableBuffer())
		if err != nil {
			return 0, err
		}
		n, err := buffer.Write(encoded)
		return int64(n), err
	}
	return writePacket(w, p)
}

// Clone copies the packet into memory of its own.
func (p *Publish) Clone() *Publish {
	memory := make([]byte, 0, len(p.topic)+len(p.block)+len(p.payload))
	c := &Publish{packetID: p.packetID, versioned: p.versioned, flags: p.flags}
	memory, c.props = p.cloneInto(memory)
	memory, c.topic = cloneText(memory, p.topic)
	_, c.payload = cloneBytes(memory, p.payload)
	return c
}

func (p *Publish) clone() Packet { return p.Clone() }

// cloneText appends a string to memory with enough capacity, and returns the memory and the copy.
func cloneText(memory []byte, text string) ([]byte, string) {
	start := len(memory)
	memory = append(memory, text...)
	return memory, viewString(memory[start:])
}

// cloneBytes is cloneText for bytes. nil remains nil.
func cloneBytes(memory, b []byte) (rest, copied []byte) {
	if b == nil {
		return memory, nil
	}
	start := len(memory)
	memory = append(memory, b...)
	return memory, memory[start:len(memory):len(memory)]
}

func (p *Publish) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.topic == "" && !p.has(TopicAlias) {
		return CauseTopicMissing, "topic"
	}
	if p.flags&flagsQoS != 0 && p.packetID == 0 {
		return CausePacketIDZero, "packet_id"
	}
	return causeNone, ""
}

func (p *Publish) firstByte() byte { return byte(TypePublish)<<4 | p.flags }

func (p *Publish) bodyLen() int {
	n := 2 + len(p.topic) + len(p.payload)
	if p.flags&flagsQoS != 0 {
		n += 2
	}
	if p.version.isV5() {
		n += p.props.size()
	}
	return n
}

// appendHead appends everything before the payload, and reserves room bytes after it. If the packet is not well formed, ok is
// false and nothing has been appended, unless checked is false. It validates and measures in one pass, because this is the hot
// path.
func (p *Publish) appendHead(dst []byte, room int, checked bool) (_ []byte, ok bool) {
	isV5 := p.version.isV5()
	hasID := p.flags&flagsQoS != 0
	headLen := 2 + len(p.topic)
	if hasID {
		headLen += 2
	}
	if isV5 {
		headLen += p.props.size()
	} else if checked && (!p.version.isKnown() || len(p.block) > 0) {
		return dst, false
	}
	bodyLen := headLen + len(p.payload)
	if checked && (len(p.topic) == 0 && !p.has(TopicAlias) || hasID && p.packetID == 0) || bodyLen > MaxRemainingLength {
		return dst, false
	}
	start := len(dst)
	headLen += 1 + varintLen(bodyLen)
	dst = slices.Grow(dst, headLen+room)[:start+headLen]
	at := dst[start:]
	at[0] = p.firstByte()
	at = at[1+putVarint(at[1:], bodyLen):]
	at[1], at[0] = byte(len(p.topic)), byte(len(p.topic)>>8)
	at = at[2+copy(at[2:], p.topic):]
	if hasID {
		at[1], at[0] = byte(p.packetID), byte(p.packetID>>8)
		at = at[2:]
	}
	if isV5 {
		if len(p.block) == 0 {
			at[0] = 0
		} else {
			copy(at[putVarint(at, len(p.block)):], p.block)
		}
	}
	return dst, true
}

func (p *Publish) appendBody(dst []byte) []byte {
	start := len(dst)
	dst, _ = p.appendHead(dst, len(p.payload), false)
	headerLen := 1 + varintLen(p.bodyLen())
	return append(append(dst[:start], dst[start+headerLen:]...), p.payload...)
}

func (p *Publish) decode(flags byte, body []byte, version Version, mode uint32) (Cause, int) {
	if len(body) < 2 {
		return CauseFieldPastEnd, 0
	}
	at := 2 + (int(body[0])<<8 | int(body[1]))
	if at > len(body) {
		return CauseFieldPastEnd, 0
	}
	topic := body[2:at]
	p.packetID = 0
	if flags&flagsQoS != 0 {
		if at+2 > len(body) {
			return CauseFieldPastEnd, at
		}
		p.packetID = PacketID(body[at])<<8 | PacketID(body[at+1])
		if p.packetID == 0 {
			return CausePacketIDZero, at
		}
		at += 2
	}
	if version == V5 {
		if at < len(body) && body[at] == 0 {
			p.block, p.seen = nil, mode
			at++
		} else {
			next, cause := p.props.decodeBlock(body, at, TypePublish, mode)
			if cause != causeNone {
				return cause, next
			}
			at = next
		}
	} else {
		p.block, p.seen = nil, mode
	}
	if !isPlainTopic(topic) {
		if cause, failedAt := topicFault(topic); cause != causeNone {
			return cause, 2 + failedAt
		}
	}
	if len(topic) == 0 && !p.has(TopicAlias) {
		return CauseTopicMissing, 0
	}
	p.topic, p.payload = viewString(topic), body[at:len(body):len(body)]
	p.version, p.flags = version, flags
	return causeNone, 0
}

func (p *Publish) describe(d *description) {
	d.add("topic", strings.Clone(p.topic))
	d.add("qos", uint8(p.QoS()))
	d.addIf(p.QoS() != AtMostOnce, "packet_id", p.packetID)
	d.addIf(p.Dup(), "dup", true)
	d.addIf(p.Retain(), "retain", true)
	d.payload("payload", p.payload)
}

// String implements [Packet].
func (p *Publish) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *Publish) Dump() string { return dump(p) }
