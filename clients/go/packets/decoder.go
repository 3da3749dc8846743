package packets

// Decoder decodes packets without allocating: it reuses one packet of each type. The returned packet and all its bytes are valid
// until the next call; the bytes are those of the input. Strings are copied on access. [Clone] makes a permanent copy.
//
// The zero value is ready to use. A Decoder is large; use one per connection, or a pool.
type Decoder struct {
	publish     Publish
	connect     Connect
	connAck     ConnAck
	pubAck      PubAck
	pubRec      PubRec
	pubRel      PubRel
	pubComp     PubComp
	subscribe   Subscribe
	subAck      SubAck
	unsubscribe Unsubscribe
	unsubAck    UnsubAck
	pingReq     PingReq
	pingResp    PingResp
	disconnect  Disconnect
	auth        Auth
}

// Decode decodes the packet at the start of b, as a view of b, and returns its length. Errors are those of the function [Decode].
func (d *Decoder) Decode(b []byte, o Options) (p Packet, n int, err error) {
	h, cause := parseHeader(b, o.Version, o.maxPacketSize())
	if cause != causeNone {
		return nil, 0, headerError(cause, b)
	}
	n = h.Len + h.RemainingLength
	if n > len(b) {
		return nil, 0, incomplete(n, len(b))
	}
	if p, err = d.decodeBody(h, b[h.Len:n], o.Version.orV5(), viewBit); err != nil {
		return nil, 0, err
	}
	return p, n, nil
}

func (d *Decoder) decodeBody(h Header, body []byte, version Version, mode uint32) (p Packet, err error) {
	if h.Type == TypePublish {
		// A separate case, because most packets are messages.
		if cause, at := d.publish.decode(h.Flags, body, version, mode); cause != causeNone {
			return nil, decodeError(cause, h.Len+at)
		}
		return &d.publish, nil
	}
	return d.decodeOther(h, body, version, mode)
}

func (d *Decoder) decodeOther(h Header, body []byte, version Version, mode uint32) (p Packet, err error) {
	var cause Cause
	var at int
	switch h.Type {
	case TypeConnect:
		cause, at = d.connect.decode(body, mode)
		p = &d.connect
	case TypeConnAck:
		cause, at = d.connAck.decode(body, version, mode)
		p = &d.connAck
	case TypePubAck:
		cause, at = d.pubAck.decode(body, version, mode)
		p = &d.pubAck
	case TypePubRec:
		cause, at = d.pubRec.decode(body, version, mode)
		p = &d.pubRec
	case TypePubRel:
		cause, at = d.pubRel.decode(body, version, mode)
		p = &d.pubRel
	case TypePubComp:
		cause, at = d.pubComp.decode(body, version, mode)
		p = &d.pubComp
	case TypeSubscribe:
		cause, at = d.subscribe.decode(body, version, mode)
		p = &d.subscribe
	case TypeSubAck:
		cause, at = d.subAck.decode(body, version, mode)
		p = &d.subAck
	case TypeUnsubscribe:
		cause, at = d.unsubscribe.decode(body, version, mode)
		p = &d.unsubscribe
	case TypeUnsubAck:
		cause, at = d.unsubAck.decode(body, version, mode)
		p = &d.unsubAck
	case TypePingReq:
		cause, at = d.pingReq.decode(body, version, mode)
		p = &d.pingReq
	case TypePingResp:
		cause, at = d.pingResp.decode(body, version, mode)
		p = &d.pingResp
	case TypeDisconnect:
		cause, at = d.disconnect.decode(body, version, mode)
		p = &d.disconnect
	case TypeAuth:
		cause, at = d.auth.decode(body, version, mode)
		p = &d.auth
	}
	if cause != causeNone {
		return nil, decodeError(cause, h.Len+at)
	}
	return p, nil
}
