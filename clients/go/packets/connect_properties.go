package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *Connect) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Connect) AddProperty(property Property) error { return p.add(TypeConnect, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Connect) SetProperties(from Properties) error { return p.setAll(TypeConnect, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Connect) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Connect) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Connect) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SessionExpiryInterval returns how long the session outlives its connection, in seconds; 0 if absent.
func (p *Connect) SessionExpiryInterval() (seconds uint32) {
	return p.getNumberOr(SessionExpiryInterval, 0)
}

// SetSessionExpiryInterval sets how long the session outlives its connection, in seconds; [SessionNeverExpires] for ever.
func (p *Connect) SetSessionExpiryInterval(seconds uint32) {
	p.setNumber(SessionExpiryInterval, seconds)
}

// ReceiveMaximum returns how many QoS 1 and 2 messages may be unacknowledged at the client; 65,535 if absent.
func (p *Connect) ReceiveMaximum() (messages uint16) {
	return uint16(p.getNumberOr(ReceiveMaximum, 65535))
}

// SetReceiveMaximum sets how many QoS 1 and 2 messages may be unacknowledged at the client. It fails for 0.
func (p *Connect) SetReceiveMaximum(messages uint16) error {
	return p.setChecked(ReceiveMaximum, uint32(messages))
}

// MaximumPacketSize returns the largest packet that the client accepts, in bytes; if absent, there is no limit.
func (p *Connect) MaximumPacketSize() (bytes uint32, ok bool) { return p.getNumber(MaximumPacketSize) }

// SetMaximumPacketSize sets the largest packet that the client accepts, in bytes. It fails for 0.
func (p *Connect) SetMaximumPacketSize(bytes uint32) error {
	return p.setChecked(MaximumPacketSize, bytes)
}

// TopicAliasMaximum returns the highest topic alias that the client accepts; 0, none, if absent.
func (p *Connect) TopicAliasMaximum() (aliases uint16) {
	return uint16(p.getNumberOr(TopicAliasMaximum, 0))
}

// SetTopicAliasMaximum sets the highest topic alias that the client accepts.
func (p *Connect) SetTopicAliasMaximum(aliases uint16) {
	p.setNumber(TopicAliasMaximum, uint32(aliases))
}

// RequestResponseInformation reports whether the client requests response information; false if absent.
func (p *Connect) RequestResponseInformation() bool {
	return p.getNumberOr(RequestResponseInformation, 0) == 1
}

// SetRequestResponseInformation sets whether the client requests response information.
func (p *Connect) SetRequestResponseInformation(wanted bool) {
	p.setNumber(RequestResponseInformation, oneIf(wanted))
}

// RequestProblemInformation reports whether failures may include reason strings and user properties; true if absent.
func (p *Connect) RequestProblemInformation() bool {
	return p.getNumberOr(RequestProblemInformation, 1) == 1
}

// SetRequestProblemInformation sets whether failures may include reason strings and user properties.
func (p *Connect) SetRequestProblemInformation(wanted bool) {
	p.setNumber(RequestProblemInformation, oneIf(wanted))
}

// AuthenticationMethod returns the name of the extended authentication method (section 4.12).
func (p *Connect) AuthenticationMethod() (method string, ok bool) {
	return p.getText(AuthenticationMethod)
}

// SetAuthenticationMethod sets the name of the extended authentication method. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Connect) SetAuthenticationMethod(method string) error {
	return p.setText(AuthenticationMethod, method)
}

// AuthenticationData returns the data of the authentication method. Do not modify it.
func (p *Connect) AuthenticationData() (data []byte, ok bool) { return p.getData(AuthenticationData) }

// SetAuthenticationData sets the data of the authentication method, which WellFormed requires as well. The data is copied. It fails above 65,535 bytes.
func (p *Connect) SetAuthenticationData(data []byte) error {
	return p.setData(AuthenticationData, data)
}
