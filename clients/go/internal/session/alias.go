package session

import (
	"encoding/binary"

	"github.com/tautwire/tautwire/clients/go/packets"
)

const (
	// A topic alias takes three bytes of properties: shorter topics save nothing.
	aliasMinTopicBytes = 8
	// In larger packets the topic is insignificant, and they would be copied once more.
	aliasMaxPacketBytes = 2048
	// aliasMaxGrowth is how much a packet may grow by an alias: the property, and longer length fields.
	aliasMaxGrowth = 5
	topicAliasID   = byte(packets.TopicAlias)
)

// aliases are the topic aliases towards the server on this connection [MQTT-3.3.2-7]. When all are in use, the least
// recently used one is reassigned, unless it was used recently: alternating topics would save nothing.
type aliases struct {
	maximum int
	byTopic map[string]*alias
	// newest is in a ring; newest.next is the oldest.
	newest  *alias
	uses    uint64
	scratch []byte
}

type alias struct {
	number         uint16
	topic          string
	used           uint64
	previous, next *alias
}

func (a *aliases) reset(maximum int) {
	*a = aliases{maximum: maximum, scratch: a.scratch}
	if maximum > 0 {
		a.byTopic = map[string]*alias{}
	}
}

// use reports whether an alias may shorten a packet.
func (a *aliases) use(topicBytes, packetBytes int) bool {
	return a.maximum > 0 && topicBytes >= aliasMinTopicBytes && packetBytes <= aliasMaxPacketBytes
}

// lookup returns the alias of a topic, and whether the server knows it; 0 if the topic has none and gets none.
func (a *aliases) lookup(topic []byte) (number uint16, known bool) {
	a.uses++
	if found := a.byTopic[string(topic)]; found != nil {
		found.used = a.uses
		a.toFront(found)
		return found.number, true
	}
	if len(a.byTopic) < a.maximum {
		made := &alias{number: uint16(len(a.byTopic) + 1), topic: string(topic), used: a.uses}
		made.previous, made.next = made, made
		a.link(made)
		a.byTopic[made.topic] = made
		return made.number, false
	}
	oldest := a.newest.next
	if a.uses-oldest.used < 4*uint64(a.maximum) {
		return 0, false
	}
	delete(a.byTopic, oldest.topic)
	oldest.topic, oldest.used = string(topic), a.uses
	a.byTopic[oldest.topic] = oldest
	a.toFront(oldest)
	return oldest.number, false
}

func (a *aliases) toFront(used *alias) {
	if used == a.newest {
		return
	}
	used.previous.next, used.next.previous = used.next, used.previous
	a.link(used)
}

func (a *aliases) link(newest *alias) {
	if a.newest != nil {
		newest.previous, newest.next = a.newest, a.newest.next
		newest.previous.next, newest.next.previous = newest, newest
	}
	a.newest = newest
}

// aliasInPlace adds an alias to the PUBLISH at the end of the output, if its topic has one or gets one.
func (s *Session) aliasInPlace(start int) {
	a := &s.aliases
	if len(s.output)-start+aliasMaxGrowth > s.limits.MaximumPacketSize {
		return
	}
	// This package wrote the packet, so all lengths are valid.
	packet := append(a.scratch[:0], s.output[start:]...)
	a.scratch = packet
	_, n := binary.Uvarint(packet[1:])
	at := 1 + n
	topicEnd := at + 2 + int(binary.BigEndian.Uint16(packet[at:]))
	topic := packet[at+2 : topicEnd]
	number, known := a.lookup(topic)
	if number == 0 {
		return
	}
	if known {
		topic = nil
	}
	idEnd := topicEnd
	if packet[0]&0b0110 != 0 {
		idEnd += 2
	}
	properties, n := binary.Uvarint(packet[idEnd:])
	propertiesAt := idEnd + n
	out := append(s.output[:start], packet[0])
	var length [binary.MaxVarintLen64]byte
	lengthBytes := binary.PutUvarint(length[:], properties+3)
	remaining := 2 + len(topic) + (idEnd - topicEnd) + lengthBytes + 3 + len(packet) - propertiesAt
	out = binary.AppendUvarint(out, uint64(remaining))
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(topic))), topic...)
	out = append(out, packet[topicEnd:idEnd]...)
	out = append(out, length[:lengthBytes]...)
	out = append(out, topicAliasID, byte(number>>8), byte(number))
	s.output = append(out, packet[propertiesAt:]...)
}

// IncomingAliases are the topic aliases of the server on one connection.
type IncomingAliases struct {
	topics []string
}

// NewIncomingAliases takes the Topic Alias Maximum of CONNECT.
func NewIncomingAliases(maximum uint16) *IncomingAliases {
	return &IncomingAliases{topics: make([]string, int(maximum)+1)}
}

// Resolve sets the topic of a message with an alias. It returns the reason to disconnect with, or success.
func (a *IncomingAliases) Resolve(p *packets.Publish) packets.ReasonCode {
	number, has := p.TopicAlias()
	if !has {
		return packets.ReasonSuccess
	}
	if int(number) >= len(a.topics) {
		return packets.ReasonTopicAliasInvalid // [MQTT-3.3.2-11]
	}
	if p.TopicView() != "" {
		a.topics[number] = p.Topic()
		return packets.ReasonSuccess
	}
	if a.topics[number] == "" {
		return packets.ReasonProtocolError
	}
	if err := p.SetTopic(a.topics[number]); err != nil {
		return packets.ReasonProtocolError
	}
	return packets.ReasonSuccess
}

func decodePublish(packet []byte, version packets.Version) (*packets.Publish, error) {
	decoded, _, err := packets.Decode(packet, packets.Options{Version: version})
	if err != nil {
		return nil, err
	}
	p, ok := decoded.(*packets.Publish)
	if !ok {
		return nil, packets.FaultProtocolError
	}
	return p, nil
}
