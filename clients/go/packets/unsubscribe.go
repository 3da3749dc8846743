package packets

import (
	"io"
	"iter"
	"slices"
)

// Unsubscribe is UNSUBSCRIBE: ends subscriptions (section 3.10).
type Unsubscribe struct {
	props
	// list has validated topic filters in encoded form.
	list []byte
	identified
	versioned
}

// NewUnsubscribe creates a packet without topic filters; call Add [MQTT-3.10.3-2]. It fails for identifier 0
// [MQTT-2.2.1-3].
func NewUnsubscribe(id PacketID) (*Unsubscribe, error) {
	p := &Unsubscribe{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeUnsubscribe].
func (p *Unsubscribe) Type() Type { return TypeUnsubscribe }

// Add adds a topic filter. It fails if the filter is invalid.
func (p *Unsubscribe) Add(filter string) error {
	if err := CheckTopicFilter(filter); err != nil {
		return err
	}
	p.list = appendString(p.list, filter)
	return nil
}

// Filters returns the topic filters, in order.
func (p *Unsubscribe) Filters() iter.Seq[string] {
	return func(yield func(string) bool) {
		for list := p.list; len(list) > 0; {
			filter := fieldAt(list)
			list = list[2+len(filter):]
			if !yield(p.text(viewString(filter))) {
				return
			}
		}
	}
}

// Len returns the number of topic filters.
func (p *Unsubscribe) Len() (filters int) {
	for list := p.list; len(list) > 0; filters++ {
		list = list[2+len(fieldAt(list)):]
	}
	return filters
}

// WellFormed implements [Packet].
func (p *Unsubscribe) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *Unsubscribe) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *Unsubscribe) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *Unsubscribe) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *Unsubscribe) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *Unsubscribe) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *Unsubscribe) Clone() *Unsubscribe {
	c := &Unsubscribe{list: slices.Clone(p.list), identified: p.identified, versioned: p.versioned}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *Unsubscribe) clone() Packet { return p.Clone() }

func (p *Unsubscribe) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.packetID == 0 {
		return CausePacketIDZero, "packet_id"
	}
	if len(p.list) == 0 {
		return CauseNoTopicFilters, "topic_filters"
	}
	return causeNone, ""
}

func (p *Unsubscribe) firstByte() byte { return TypeUnsubscribe.firstByte() }

func (p *Unsubscribe) bodyLen() int { return listBodyLen(&p.props, p.version, p.list) }

func (p *Unsubscribe) appendBody(dst []byte) []byte {
	return appendListBody(dst, p.packetID, &p.props, p.version, p.list)
}

func (p *Unsubscribe) decode(body []byte, version Version, mode uint32) (Cause, int) {
	p.version = version
	at, cause := decodeListHead(TypeUnsubscribe, &p.packetID, &p.props, body, version, mode)
	if cause != causeNone {
		return cause, at
	}
	p.list = body[at:len(body):len(body)]
	for at < len(body) {
		if at, cause = decodeFilter(body, at); cause != causeNone {
			return cause, at
		}
	}
	if len(p.list) == 0 {
		return CauseNoTopicFilters, at
	}
	return causeNone, 0
}

func (p *Unsubscribe) describe(d *description) {
	d.add("packet_id", p.packetID)
	for filter := range p.Filters() {
		d.add("filter", filter)
	}
}
