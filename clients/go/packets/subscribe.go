package packets

import (
	"encoding/binary"
	"io"
	"iter"
	"slices"
	"strings"
)

// SubscriptionOptions are the options of a subscription (section 3.8.3.1). Before MQTT 5.0 there is only the QoS.
type SubscriptionOptions struct {
	// QoS is the maximum QoS of the messages.
	QoS QoS
	// NoLocal excludes messages that this client published. Not allowed for a shared subscription [MQTT-3.8.3-4].
	NoLocal bool
	// RetainAsPublished keeps the retain flag of forwarded messages.
	RetainAsPublished bool
	// RetainHandling is whether retained messages are sent now.
	RetainHandling RetainHandling
}

const (
	optionsQoS               = 0b0000_0011
	optionsNoLocal           = 0b0000_0100
	optionsRetainAsPublished = 0b0000_1000
	optionsRetainHandling    = 0b0011_0000
	optionsReserved          = 0b1100_0000
)

func (o SubscriptionOptions) wire() byte {
	return byte(o.QoS) | byte(oneIf(o.NoLocal))<<2 | byte(oneIf(o.RetainAsPublished))<<3 | byte(o.RetainHandling)<<4
}

func optionsOf(b byte) SubscriptionOptions {
	return SubscriptionOptions{
		QoS:               QoS(b & optionsQoS),
		NoLocal:           b&optionsNoLocal != 0,
		RetainAsPublished: b&optionsRetainAsPublished != 0,
		RetainHandling:    RetainHandling(b & optionsRetainHandling >> 4),
	}
}

func optionsCause(b byte, version Version) Cause {
	switch {
	case version != V5 && (b&^optionsQoS != 0 || b == optionsQoS), b&optionsReserved != 0:
		return CauseSubscriptionOptionsReserved
	case b&optionsQoS == optionsQoS:
		return CauseSubscriptionQoSThree
	case b&optionsRetainHandling == optionsRetainHandling:
		return CauseRetainHandlingThree
	}
	return causeNone
}

// Subscribe is SUBSCRIBE: requests messages (section 3.8).
type Subscribe struct {
	props
	// list has validated topic filters and options in encoded form.
	list []byte
	identified
	versioned
}

// NewSubscribe creates a packet without topic filters; call Add [MQTT-3.8.3-2]. It fails for identifier 0 [MQTT-2.2.1-3].
func NewSubscribe(id PacketID) (*Subscribe, error) {
	p := &Subscribe{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeSubscribe].
func (p *Subscribe) Type() Type { return TypeSubscribe }

// Add adds a topic filter. It fails if the filter or the options are invalid, or for No Local with a shared subscription
// [MQTT-3.8.3-4].
func (p *Subscribe) Add(filter string, options SubscriptionOptions) error {
	if err := CheckTopicFilter(filter); err != nil {
		return err
	}
	if options.QoS > ExactlyOnce {
		return fieldError(CauseSubscriptionQoSThree, "qos")
	}
	if options.RetainHandling > DoNotSend {
		return fieldError(CauseRetainHandlingThree, "retain_handling")
	}
	if options.NoLocal && strings.HasPrefix(filter, sharePrefix) {
		return fieldError(CauseNoLocalOnShared, "no_local")
	}
	p.list = append(appendString(p.list, filter), options.wire())
	return nil
}

// Requests returns the topic filters with their options, in order.
func (p *Subscribe) Requests() iter.Seq2[string, SubscriptionOptions] {
	return func(yield func(string, SubscriptionOptions) bool) {
		for list := p.list; len(list) > 0; {
			filter := fieldAt(list)
			options := optionsOf(list[2+len(filter)])
			list = list[3+len(filter):]
			if !yield(p.text(viewString(filter)), options) {
				return
			}
		}
	}
}

// Len returns the number of topic filters.
func (p *Subscribe) Len() (filters int) {
	for list := p.list; len(list) > 0; filters++ {
		list = list[3+len(fieldAt(list)):]
	}
	return filters
}

// WellFormed implements [Packet].
func (p *Subscribe) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *Subscribe) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *Subscribe) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *Subscribe) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *Subscribe) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *Subscribe) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *Subscribe) Clone() *Subscribe {
	c := &Subscribe{list: slices.Clone(p.list), identified: p.identified, versioned: p.versioned}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *Subscribe) clone() Packet { return p.Clone() }

func (p *Subscribe) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.packetID == 0 {
		return CausePacketIDZero, "packet_id"
	}
	if len(p.list) == 0 {
		return CauseNoTopicFilters, "topic_filters"
	}
	if !p.version.isV5() {
		for _, options := range p.Requests() {
			if options != (SubscriptionOptions{QoS: options.QoS}) {
				return CauseNotInVersion, "subscription_options"
			}
		}
	}
	return causeNone, ""
}

func (p *Subscribe) firstByte() byte { return TypeSubscribe.firstByte() }

func (p *Subscribe) bodyLen() int { return listBodyLen(&p.props, p.version, p.list) }

func (p *Subscribe) appendBody(dst []byte) []byte {
	return appendListBody(dst, p.packetID, &p.props, p.version, p.list)
}

func (p *Subscribe) decode(body []byte, version Version, mode uint32) (Cause, int) {
	p.version = version
	at, cause := decodeListHead(TypeSubscribe, &p.packetID, &p.props, body, version, mode)
	if cause != causeNone {
		return cause, at
	}
	p.list = body[at:len(body):len(body)]
	for at < len(body) {
		start := at + 2
		if at, cause = decodeFilter(body, at); cause != causeNone {
			return cause, at
		}
		if at == len(body) {
			return CauseFieldPastEnd, at
		}
		options := body[at]
		if cause = optionsCause(options, version); cause != causeNone {
			return cause, at
		}
		if options&optionsNoLocal != 0 && strings.HasPrefix(viewString(body[start:at]), sharePrefix) {
			return CauseNoLocalOnShared, at
		}
		at++
	}
	if len(p.list) == 0 {
		return CauseNoTopicFilters, at
	}
	return causeNone, 0
}

func (p *Subscribe) describe(d *description) {
	d.add("packet_id", p.packetID)
	for filter, o := range p.Requests() {
		d.add("filter", filter)
		d.add("qos", uint8(o.QoS))
		d.addIf(o.NoLocal, "no_local", true)
		d.addIf(o.RetainAsPublished, "retain_as_published", true)
		d.addIf(o.RetainHandling != SendAtSubscribe, "retain_handling", o.RetainHandling)
	}
}

// listBodyLen returns the length of packet identifier, properties and list: SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK.
func listBodyLen(p *props, version Version, list []byte) int {
	if version.isV5() {
		return 2 + p.size() + len(list)
	}
	return 2 + len(list)
}

func appendListBody(dst []byte, id PacketID, p *props, version Version, list []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(id))
	if version.isV5() {
		dst = p.appendTo(dst)
	}
	return append(dst, list...)
}

// decodeListHead decodes the fields before the list, and returns the start of the list, or the position of the fault.
func decodeListHead(t Type, id *PacketID, p *props, body []byte, version Version, mode uint32) (at int, cause Cause) {
	if *id, cause = decodePacketID(body); cause != causeNone {
		return 0, cause
	}
	if version == V5 {
		return p.decode(body, 2, t, mode)
	}
	p.block, p.seen = nil, mode
	return 2, causeNone
}

// decodeFilter validates a topic filter at the given byte of the body, and returns the position after it, or of the fault.
func decodeFilter(body []byte, at int) (next int, cause Cause) {
	filter, next, cause := decodeText(body, at)
	if cause != causeNone {
		return next, cause
	}
	if cause, failedAt := filterFault(filter); cause != causeNone {
		return at + 2 + failedAt, cause
	}
	return next, causeNone
}
