package packets

import (
	"encoding/binary"
	"io"
)

const (
	connectReserved   = 0b0000_0001
	connectCleanStart = 0b0000_0010
	connectWill       = 0b0000_0100
	connectWillQoS    = 0b0001_1000
	connectWillRetain = 0b0010_0000
	connectPassword   = 0b0100_0000
	connectUserName   = 0b1000_0000
)

// Connect is CONNECT: the first packet of a connection (section 3.1).
type Connect struct {
	clientID string
	userName string
	password []byte
	will     Will
	props
	keepAlive uint16
	versioned
	// flags are the connect flags except those of the will, which has its own.
	flags byte
}

// NewConnect creates a CONNECT with Clean Start. If the client identifier is empty, the server assigns one. It fails if the text
// is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func NewConnect(clientID string) (*Connect, error) {
	p := &Connect{flags: connectCleanStart}
	if err := p.SetClientID(clientID); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeConnect].
func (p *Connect) Type() Type { return TypeConnect }

// ClientID returns the name of the session; empty if the server is to assign it.
func (p *Connect) ClientID() string { return p.text(p.clientID) }

// SetClientID sets the name of the session. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535
// bytes.
func (p *Connect) SetClientID(clientID string) error {
	if cause := stringCause(clientID); cause != causeNone {
		return fieldError(cause, "client_id")
	}
	p.clientID = clientID
	return nil
}

// CleanStart reports whether the server discards an existing session first; Clean Session before MQTT 5.0.
func (p *Connect) CleanStart() bool { return p.flags&connectCleanStart != 0 }

// SetCleanStart sets whether the server discards an existing session first.
func (p *Connect) SetCleanStart(clean bool) {
	p.flags &^= connectCleanStart
	if clean {
		p.flags |= connectCleanStart
	}
}

// KeepAlive returns the keep alive interval, in seconds; 0 for no limit.
func (p *Connect) KeepAlive() (seconds uint16) { return p.keepAlive }

// SetKeepAlive sets the keep alive interval, in seconds; 0 for no limit.
func (p *Connect) SetKeepAlive(seconds uint16) { p.keepAlive = seconds }

// Will returns the message to publish if the connection is lost; nil for none. It belongs to the packet.
func (p *Connect) Will() *Will {
	if p.flags&connectWill == 0 {
		return nil
	}
	return &p.will
}

// SetWill sets the message to publish if the connection is lost; nil for none. It is copied.
func (p *Connect) SetWill(will *Will) {
	p.will, p.flags = Will{}, p.flags&^connectWill
	if will != nil {
		p.will, p.flags = *will.Clone(), p.flags|connectWill
	}
}

// UserName returns the user name.
func (p *Connect) UserName() (name string, ok bool) {
	return p.text(p.userName), p.flags&connectUserName != 0
}

// SetUserName sets the user name. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Connect) SetUserName(name string) error {
	if cause := stringCause(name); cause != causeNone {
		return fieldError(cause, "user_name")
	}
	p.userName, p.flags = name, p.flags|connectUserName
	return nil
}

// Password returns the password.
func (p *Connect) Password() (password []byte, ok bool) {
	return p.password, p.flags&connectPassword != 0
}

// SetPassword sets the password. It is not copied. It fails above 65,535 bytes. Before MQTT 5.0 it requires a user name.
func (p *Connect) SetPassword(password []byte) error {
	if len(password) > maxFieldBytes {
		return fieldError(CauseFieldTooLong, "password")
	}
	p.password, p.flags = password, p.flags|connectPassword
	return nil
}

// WellFormed implements [Packet].
func (p *Connect) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *Connect) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *Connect) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *Connect) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *Connect) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *Connect) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *Connect) Clone() *Connect {
	memory := make([]byte, 0, len(p.clientID)+len(p.userName)+len(p.password)+len(p.block)+p.will.memory())
	c := &Connect{keepAlive: p.keepAlive, versioned: p.versioned, flags: p.flags}
	memory, c.clientID = cloneText(memory, p.clientID)
	memory, c.userName = cloneText(memory, p.userName)
	memory, c.password = cloneBytes(memory, p.password)
	memory, c.props = p.cloneInto(memory)
	c.will = p.will.cloneWith(memory)
	return c
}

func (p *Connect) clone() Packet { return p.Clone() }

func (p *Connect) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.flags&connectWill != 0 {
		if p.will.topic == "" {
			return CauseWillTopicInvalid, "will.topic"
		}
		if len(p.will.payload) > maxFieldBytes {
			return CauseFieldTooLong, "will.payload"
		}
		if len(p.will.block) > 0 && !p.version.isV5() {
			return CauseNotInVersion, "will.properties"
		}
	}
	if p.flags&(connectPassword|connectUserName) == connectPassword && !p.version.isV5() {
		return CausePasswordWithoutUserName, "password"
	}
	if p.ClientID() == "" && !p.CleanStart() && !p.version.isV5() {
		return CauseClientIDMissing, "client_id" // [MQTT-3.1.3-7] of 3.1.1.
	}
	if p.lacksMethod() {
		return CauseAuthenticationDataAlone, "authentication_data"
	}
	return causeNone, ""
}

func (p *Connect) firstByte() byte { return TypeConnect.firstByte() }

func (p *Connect) bodyLen() int {
	isV5 := p.version.isV5()
	n := 2 + len(p.version.protocolName()) + 4 + 2 + len(p.clientID)
	if isV5 {
		n += p.props.size()
	}
	if p.flags&connectWill != 0 {
		n += 2 + len(p.will.topic) + 2 + len(p.will.payload)
		if isV5 {
			n += p.will.size()
		}
	}
	if p.flags&connectUserName != 0 {
		n += 2 + len(p.userName)
	}
	if p.flags&connectPassword != 0 {
		n += 2 + len(p.password)
	}
	return n
}

func (p *Connect) appendBody(dst []byte) []byte {
	isV5 := p.version.isV5()
	dst = appendString(dst, p.version.protocolName())
	dst = append(dst, byte(p.version.orV5()), p.wireFlags())
	dst = binary.BigEndian.AppendUint16(dst, p.keepAlive)
	if isV5 {
		dst = p.props.appendTo(dst)
	}
	dst = appendString(dst, p.clientID)
	if p.flags&connectWill != 0 {
		if isV5 {
			dst = p.will.props.appendTo(dst)
		}
		dst = appendString(dst, p.will.topic)
		dst = appendString(dst, viewString(p.will.payload))
	}
	if p.flags&connectUserName != 0 {
		dst = appendString(dst, p.userName)
	}
	if p.flags&connectPassword != 0 {
		dst = appendString(dst, viewString(p.password))
	}
	return dst
}

func (p *Connect) wireFlags() byte {
	flags := p.flags
	if flags&connectWill != 0 {
		flags |= byte(p.will.qos) << 3
		if p.will.retain {
			flags |= connectWillRetain
		}
	}
	return flags
}

func (p *Connect) decode(body []byte, mode uint32) (Cause, int) {
	version, at, cause := decodeVersion(body)
	if cause != causeNone {
		return cause, at
	}
	if at == len(body) {
		return CauseFieldPastEnd, at
	}
	flags := body[at]
	if cause := connectFlagsCause(flags, version); cause != causeNone {
		return cause, at
	}
	at++
	if at+2 > len(body) {
		return CauseFieldPastEnd, at
	}
	p.version, p.keepAlive = version, binary.BigEndian.Uint16(body[at:])
	p.flags = flags &^ (connectWillQoS | connectWillRetain)
	at += 2
	p.block, p.seen = nil, mode
	if version == V5 {
		if at, cause = p.props.decode(body, at, TypeConnect, mode); cause != causeNone {
			return cause, at
		}
	}
	if p.clientID, at, cause = decodeText(body, at); cause != causeNone {
		return cause, at
	}
	p.will = Will{}
	if flags&connectWill != 0 {
		if at, cause = p.will.decode(flags, body, at, version, mode); cause != causeNone {
			return cause, at
		}
	}
	p.userName, p.password = "", nil
	if flags&connectUserName != 0 {
		if p.userName, at, cause = decodeText(body, at); cause != causeNone {
			return cause, at
		}
	}
	if flags&connectPassword != 0 {
		n := fieldLen(body[at:])
		if n == 0 {
			return CauseFieldPastEnd, at
		}
		p.password = body[at+2 : at+n : at+n]
		at += n
	}
	if at != len(body) {
		return CauseTrailingBytes, at
	}
	return causeNone, 0
}

func decodeVersion(body []byte) (version Version, at int, cause Cause) {
	name, at, cause := decodeText(body, 0)
	if cause != causeNone {
		return 0, at, cause
	}
	if name != V31.protocolName() && name != V5.protocolName() {
		return 0, 0, CauseProtocolNameUnknown
	}
	if at == len(body) {
		return 0, at, CauseFieldPastEnd
	}
	version = Version(body[at])
	if version < V31 || version > V5 || version.protocolName() != name {
		return 0, at, CauseProtocolLevelUnsupported
	}
	return version, at + 1, causeNone
}

func connectFlagsCause(flags byte, version Version) Cause {
	switch {
	case flags&connectReserved != 0:
		return CauseConnectFlagReserved
	case flags&connectWill == 0 && flags&(connectWillQoS|connectWillRetain) != 0:
		return CauseWillFlagsWithoutWill
	case flags&connectWillQoS == connectWillQoS:
		return CauseWillQoSThree
	case version != V5 && flags&(connectUserName|connectPassword) == connectPassword:
		return CausePasswordWithoutUserName
	}
	return causeNone
}

// decodeText reads a string at the given byte of the body, and returns the position after it, or of the fault. The string is a
// view.
func decodeText(body []byte, at int) (text string, next int, cause Cause) {
	n := fieldLen(body[at:])
	if n == 0 {
		return "", at, CauseFieldPastEnd
	}
	field := body[at+2 : at+n]
	if cause, failedAt := textFault(field); cause != causeNone {
		return "", at + 2 + failedAt, cause
	}
	return viewString(field), at + n, causeNone
}

func (p *Connect) describe(d *description) {
	d.add("version", p.Version())
	d.add("client_id", p.clientID)
	d.add("clean_start", p.CleanStart())
	d.add("keep_alive_s", p.keepAlive)
	if will := p.Will(); will != nil {
		will.describe(d)
	}
	d.addIf(p.flags&connectUserName != 0, "user_name", p.userName)
	if p.flags&connectPassword != 0 {
		d.secret("password", p.password)
	}
}
