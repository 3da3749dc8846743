package packets

import "io"

// Auth is AUTH: a step of an extended authentication (section 3.15). MQTT 5.0 only.
type Auth struct {
	props
	versioned
	reason ReasonCode
}

// NewAuth creates a step of an authentication. It fails for codes that AUTH may not carry [MQTT-3.15.2-1], and for a method that
// is not valid text.
func NewAuth(reason ReasonCode, method string) (*Auth, error) {
	p := &Auth{}
	if err := p.SetReason(reason); err != nil {
		return nil, err
	}
	if err := p.SetAuthenticationMethod(method); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeAuth].
func (p *Auth) Type() Type { return TypeAuth }

// Reason returns the reason code: which step it is.
func (p *Auth) Reason() ReasonCode { return p.reason }

// SetReason sets the reason code. It fails for codes that AUTH may not carry [MQTT-3.15.2-1].
func (p *Auth) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypeAuth) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	return nil
}

// WellFormed implements [Packet].
func (p *Auth) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *Auth) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *Auth) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *Auth) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *Auth) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *Auth) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *Auth) Clone() *Auth {
	c := &Auth{versioned: p.versioned, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *Auth) clone() Packet { return p.Clone() }

func (p *Auth) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if !p.version.isV5() {
		return CauseAuthBeforeV5, "version"
	}
	if p.lacksItsMethod() {
		return CauseAuthenticationMethodMissing, "authentication_method"
	}
	return causeNone, ""
}

// lacksItsMethod: section 3.15.2.2.2 always requires the method, but section 3.15.2.1 allows a success without properties.
func (p *Auth) lacksItsMethod() bool { return !p.isBareSuccess() && !p.has(AuthenticationMethod) }

func (p *Auth) isBareSuccess() bool { return p.reason == ReasonSuccess && len(p.block) == 0 }

func (p *Auth) firstByte() byte { return TypeAuth.firstByte() }

func (p *Auth) bodyLen() int {
	if p.isBareSuccess() {
		return 0
	}
	return 1 + p.props.size()
}

func (p *Auth) appendBody(dst []byte) []byte {
	if p.isBareSuccess() {
		return dst
	}
	return p.props.appendTo(append(dst, byte(p.reason)))
}

func (p *Auth) decode(body []byte, version Version, mode uint32) (Cause, int) {
	p.version, p.reason = version, ReasonSuccess
	p.block, p.seen = nil, mode
	if version != V5 {
		return CauseAuthBeforeV5, 0
	}
	if len(body) == 0 {
		return causeNone, 0
	}
	p.reason = ReasonCode(body[0])
	if !p.reason.AllowedIn(TypeAuth) {
		return CauseReasonCodeUnknown, 0
	}
	next, cause := p.props.decode(body, 1, TypeAuth, mode)
	switch {
	case cause != causeNone:
		return cause, next
	case next != len(body):
		return CauseTrailingBytes, next
	case p.lacksItsMethod():
		return CauseAuthenticationMethodMissing, 1
	}
	return causeNone, 0
}

func (p *Auth) describe(d *description) { d.add("reason", p.reason) }
