package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *Connect) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Connect) AddProperty(property Property) error { return p.add(TypeConnect, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Connect) SetProperties(from Properties) error { return p.setAll(TypeConnect, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Connect) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Connect) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Connect) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SessionExpiryInterval is how long the session outlives its connection, in seconds; 0 if absent: not at all.
func (p *Connect) SessionExpiryInterval() (seconds uint32) {
	return p.getNumberOr(SessionExpiryInterval, 0)
}

// SetSessionExpiryInterval sets how long the session outlives its connection, in seconds; [SessionNeverExpires] for no end.
func (p *Connect) SetSessionExpiryInterval(seconds uint32) {
	p.setNumber(SessionExpiryInterval, seconds)
}

// ReceiveMaximum is how many QoS 1 and 2 messages the client takes at once; 65,535 if absent.
func (p *Connect) ReceiveMaximum() (messages uint16) {
	return uint16(p.getNumberOr(ReceiveMaximum, 65535))
}

// SetReceiveMaximum sets how many QoS 1 and 2 messages the client takes at once. 0 is refused.
func (p *Connect) SetReceiveMaximum(messages uint16) error {
	return p.setChecked(ReceiveMaximum, uint32(messages))
}

// MaximumPacketSize is the largest packet that the client takes, in bytes; without one there is no limit.
func (p *Connect) MaximumPacketSize() (bytes uint32, ok bool) { return p.getNumber(MaximumPacketSize) }

// SetMaximumPacketSize sets the largest packet that the client takes, in bytes. 0 is refused.
func (p *Connect) SetMaximumPacketSize(bytes uint32) error {
	return p.setChecked(MaximumPacketSize, bytes)
}

// TopicAliasMaximum is the highest topic alias that the client takes; 0 if absent: none.
func (p *Connect) TopicAliasMaximum() (aliases uint16) {
	return uint16(p.getNumberOr(TopicAliasMaximum, 0))
}

// SetTopicAliasMaximum sets the highest topic alias that the client takes.
func (p *Connect) SetTopicAliasMaximum(aliases uint16) {
	p.setNumber(TopicAliasMaximum, uint32(aliases))
}

// RequestResponseInformation is whether the client asks for response information; no if absent.
func (p *Connect) RequestResponseInformation() bool {
	return p.getNumberOr(RequestResponseInformation, 0) == 1
}

// SetRequestResponseInformation sets whether the client asks for response information.
func (p *Connect) SetRequestResponseInformation(wanted bool) {
	p.setNumber(RequestResponseInformation, oneIf(wanted))
}

// RequestProblemInformation is whether reason strings and user properties may come with failures; yes if absent.
func (p *Connect) RequestProblemInformation() bool {
	return p.getNumberOr(RequestProblemInformation, 1) == 1
}

// SetRequestProblemInformation sets whether reason strings and user properties may come with failures.
func (p *Connect) SetRequestProblemInformation(wanted bool) {
	p.setNumber(RequestProblemInformation, oneIf(wanted))
}

// AuthenticationMethod is the name of the method of an extended authentication (section 4.12).
func (p *Connect) AuthenticationMethod() (method string, ok bool) {
	return p.getText(AuthenticationMethod)
}

// SetAuthenticationMethod sets the name of the method of an extended authentication. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Connect) SetAuthenticationMethod(method string) error {
	return p.setText(AuthenticationMethod, method)
}

// AuthenticationData is data of the authentication method; it needs the method. Do not change it.
func (p *Connect) AuthenticationData() (data []byte, ok bool) { return p.getData(AuthenticationData) }

// SetAuthenticationData sets data of the authentication method; WellFormed asks for the method too. It is copied. More than 65,535 bytes are refused.
func (p *Connect) SetAuthenticationData(data []byte) error {
	return p.setData(AuthenticationData, data)
}
