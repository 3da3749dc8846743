package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *ConnAck) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *ConnAck) AddProperty(property Property) error { return p.add(TypeConnAck, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *ConnAck) SetProperties(from Properties) error { return p.setAll(TypeConnAck, from) }

// RemoveProperty removes all properties with that identifier.
func (p *ConnAck) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *ConnAck) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *ConnAck) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SessionExpiryInterval returns how long the session outlives its connection, in seconds; if absent, that of CONNECT applies.
func (p *ConnAck) SessionExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(SessionExpiryInterval)
}

// SetSessionExpiryInterval sets how long the session outlives its connection, in seconds; [SessionNeverExpires] for ever.
func (p *ConnAck) SetSessionExpiryInterval(seconds uint32) {
	p.setNumber(SessionExpiryInterval, seconds)
}

// ReceiveMaximum returns how many QoS 1 and 2 messages may be unacknowledged at the server; 65,535 if absent.
func (p *ConnAck) ReceiveMaximum() (messages uint16) {
	return uint16(p.getNumberOr(ReceiveMaximum, 65535))
}

// SetReceiveMaximum sets how many QoS 1 and 2 messages may be unacknowledged at the server. It fails for 0.
func (p *ConnAck) SetReceiveMaximum(messages uint16) error {
	return p.setChecked(ReceiveMaximum, uint32(messages))
}

// MaximumPacketSize returns the largest packet that the server accepts, in bytes; if absent, there is no limit.
func (p *ConnAck) MaximumPacketSize() (bytes uint32, ok bool) { return p.getNumber(MaximumPacketSize) }

// SetMaximumPacketSize sets the largest packet that the server accepts, in bytes. It fails for 0.
func (p *ConnAck) SetMaximumPacketSize(bytes uint32) error {
	return p.setChecked(MaximumPacketSize, bytes)
}

// TopicAliasMaximum returns the highest topic alias that the server accepts; 0, none, if absent.
func (p *ConnAck) TopicAliasMaximum() (aliases uint16) {
	return uint16(p.getNumberOr(TopicAliasMaximum, 0))
}

// SetTopicAliasMaximum sets the highest topic alias that the server accepts.
func (p *ConnAck) SetTopicAliasMaximum(aliases uint16) {
	p.setNumber(TopicAliasMaximum, uint32(aliases))
}

// MaximumQoS returns the highest quality of service that the server supports; QoS 2 if absent.
func (p *ConnAck) MaximumQoS() QoS { return QoS(p.getNumberOr(MaximumQoS, uint32(ExactlyOnce))) }

// SetMaximumQoS sets the highest quality of service that the server supports. QoS 2 removes the property, because that is its default.
func (p *ConnAck) SetMaximumQoS(qos QoS) error {
	if qos == ExactlyOnce {
		p.remove(MaximumQoS)
		return nil
	}
	return p.setChecked(MaximumQoS, uint32(qos))
}

// RetainAvailable reports whether the server supports retained messages; true if absent.
func (p *ConnAck) RetainAvailable() bool { return p.getNumberOr(RetainAvailable, 1) == 1 }

// SetRetainAvailable sets whether the server supports retained messages.
func (p *ConnAck) SetRetainAvailable(available bool) {
	p.setNumber(RetainAvailable, oneIf(available))
}

// WildcardSubscriptionAvailable reports whether the server supports wildcard subscriptions; true if absent.
func (p *ConnAck) WildcardSubscriptionAvailable() bool {
	return p.getNumberOr(WildcardSubscriptionAvailable, 1) == 1
}

// SetWildcardSubscriptionAvailable sets whether the server supports wildcard subscriptions.
func (p *ConnAck) SetWildcardSubscriptionAvailable(available bool) {
	p.setNumber(WildcardSubscriptionAvailable, oneIf(available))
}

// SubscriptionIdentifierAvailable reports whether the server supports subscription identifiers; true if absent.
func (p *ConnAck) SubscriptionIdentifierAvailable() bool {
	return p.getNumberOr(SubscriptionIdentifierAvailable, 1) == 1
}

// SetSubscriptionIdentifierAvailable sets whether the server supports subscription identifiers.
func (p *ConnAck) SetSubscriptionIdentifierAvailable(available bool) {
	p.setNumber(SubscriptionIdentifierAvailable, oneIf(available))
}

// SharedSubscriptionAvailable reports whether the server supports shared subscriptions; true if absent.
func (p *ConnAck) SharedSubscriptionAvailable() bool {
	return p.getNumberOr(SharedSubscriptionAvailable, 1) == 1
}

// SetSharedSubscriptionAvailable sets whether the server supports shared subscriptions.
func (p *ConnAck) SetSharedSubscriptionAvailable(available bool) {
	p.setNumber(SharedSubscriptionAvailable, oneIf(available))
}

// AssignedClientIdentifier returns the client identifier that the server assigned.
func (p *ConnAck) AssignedClientIdentifier() (clientID string, ok bool) {
	return p.getText(AssignedClientIdentifier)
}

// SetAssignedClientIdentifier sets the client identifier that the server assigned. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *ConnAck) SetAssignedClientIdentifier(clientID string) error {
	return p.setText(AssignedClientIdentifier, clientID)
}

// ServerKeepAlive returns the keep alive that replaces that of CONNECT, in seconds [MQTT-3.2.2-21].
func (p *ConnAck) ServerKeepAlive() (seconds uint16, ok bool) {
	number, ok := p.getNumber(ServerKeepAlive)
	return uint16(number), ok
}

// SetServerKeepAlive sets the keep alive that replaces that of CONNECT, in seconds.
func (p *ConnAck) SetServerKeepAlive(seconds uint16) {
	p.setNumber(ServerKeepAlive, uint32(seconds))
}

// ResponseInformation returns the prefix of response topics.
func (p *ConnAck) ResponseInformation() (information string, ok bool) {
	return p.getText(ResponseInformation)
}

// SetResponseInformation sets the prefix of response topics. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *ConnAck) SetResponseInformation(information string) error {
	return p.setText(ResponseInformation, information)
}

// ServerReference returns another server to use.
func (p *ConnAck) ServerReference() (reference string, ok bool) { return p.getText(ServerReference) }

// SetServerReference sets another server to use. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *ConnAck) SetServerReference(reference string) error {
	return p.setText(ServerReference, reference)
}

// ReasonString returns a human-readable reason.
func (p *ConnAck) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a human-readable reason. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *ConnAck) SetReasonString(reason string) error {
	return p.setText(ReasonString, reason)
}

// AuthenticationMethod returns the name of the extended authentication method (section 4.12).
func (p *ConnAck) AuthenticationMethod() (method string, ok bool) {
	return p.getText(AuthenticationMethod)
}

// SetAuthenticationMethod sets the name of the extended authentication method. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *ConnAck) SetAuthenticationMethod(method string) error {
	return p.setText(AuthenticationMethod, method)
}

// AuthenticationData returns the data of the authentication method. Do not modify it.
func (p *ConnAck) AuthenticationData() (data []byte, ok bool) { return p.getData(AuthenticationData) }

// SetAuthenticationData sets the data of the authentication method, which WellFormed requires as well. The data is copied. It fails above 65,535 bytes.
func (p *ConnAck) SetAuthenticationData(data []byte) error {
	return p.setData(AuthenticationData, data)
}
