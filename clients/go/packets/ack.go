package packets

// decodeAck decodes PUBACK, PUBREC, PUBREL and PUBCOMP (sections 3.4 to 3.7), which differ only in type, first byte and allowed
// reason codes.
func decodeAck(t Type, p *props, body []byte, version Version, mode uint32) (PacketID, ReasonCode, Cause, int) {
	id, cause := decodePacketID(body)
	if cause != causeNone {
		return 0, 0, cause, 0
	}
	p.block, p.seen = nil, mode
	if len(body) == 2 {
		return id, ReasonSuccess, causeNone, 0
	}
	if version != V5 {
		return 0, 0, CauseTrailingBytes, 2
	}
	reason, cause, at := decodeTail(t, p, body, 2, mode)
	return id, reason, cause, at
}

// decodeTail decodes a reason code and properties at the end of a packet, both of which may be omitted.
func decodeTail(t Type, p *props, body []byte, at int, mode uint32) (ReasonCode, Cause, int) {
	reason := ReasonCode(body[at])
	if !reason.AllowedIn(t) {
		return 0, CauseReasonCodeUnknown, at
	}
	if at+1 == len(body) {
		return reason, causeNone, 0
	}
	next, cause := p.decode(body, at+1, t, mode)
	if cause == causeNone && next != len(body) {
		cause = CauseTrailingBytes
	}
	return reason, cause, next
}

func decodePacketID(body []byte) (PacketID, Cause) {
	if len(body) < 2 {
		return 0, CauseFieldPastEnd
	}
	id := PacketID(body[0])<<8 | PacketID(body[1])
	if id == 0 {
		return 0, CausePacketIDZero
	}
	return id, causeNone
}

func ackFault(p *props, v *versioned, id PacketID, reason ReasonCode) (Cause, string) {
	if cause, field := v.faultWith(p); cause != causeNone {
		return cause, field
	}
	if id == 0 {
		return CausePacketIDZero, "packet_id"
	}
	if reason != ReasonSuccess && !v.version.isV5() {
		return CauseNotInVersion, "reason"
	}
	return causeNone, ""
}

// tailLen returns the length of reason code and properties in the shortest legal form.
func tailLen(reason ReasonCode, p *props) int {
	switch {
	case len(p.block) > 0:
		return 1 + p.size()
	case reason != ReasonSuccess:
		return 1
	}
	return 0
}

func appendTail(dst []byte, reason ReasonCode, p *props) []byte {
	switch {
	case len(p.block) > 0:
		return p.appendTo(append(dst, byte(reason)))
	case reason != ReasonSuccess:
		return append(dst, byte(reason))
	}
	return dst
}

func describeAck(d *description, id PacketID, reason ReasonCode) {
	d.add("packet_id", id)
	d.addIf(reason != ReasonSuccess, "reason", reason)
}
