package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *ConnAck) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *ConnAck) AddProperty(property Property) error { return p.add(TypeConnAck, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *ConnAck) SetProperties(from Properties) error { return p.setAll(TypeConnAck, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *ConnAck) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *ConnAck) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *ConnAck) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SessionExpiryInterval is how long the session outlives its connection, in seconds; without one, as long as CONNECT asked.
func (p *ConnAck) SessionExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(SessionExpiryInterval)
}

// SetSessionExpiryInterval sets how long the session outlives its connection, in seconds; [SessionNeverExpires] for no end.
func (p *ConnAck) SetSessionExpiryInterval(seconds uint32) {
	p.setNumber(SessionExpiryInterval, seconds)
}

// ReceiveMaximum is how many QoS 1 and 2 messages the server takes at once; 65,535 if absent.
func (p *ConnAck) ReceiveMaximum() (messages uint16) {
	return uint16(p.getNumberOr(ReceiveMaximum, 65535))
}

// SetReceiveMaximum sets how many QoS 1 and 2 messages the server takes at once. 0 is refused.
func (p *ConnAck) SetReceiveMaximum(messages uint16) error {
	return p.setChecked(ReceiveMaximum, uint32(messages))
}

// MaximumPacketSize is the largest packet that the server takes, in bytes; without one there is no limit.
func (p *ConnAck) MaximumPacketSize() (bytes uint32, ok bool) { return p.getNumber(MaximumPacketSize) }

// SetMaximumPacketSize sets the largest packet that the server takes, in bytes. 0 is refused.
func (p *ConnAck) SetMaximumPacketSize(bytes uint32) error {
	return p.setChecked(MaximumPacketSize, bytes)
}

// TopicAliasMaximum is the highest topic alias that the server takes; 0 if absent: none.
func (p *ConnAck) TopicAliasMaximum() (aliases uint16) {
	return uint16(p.getNumberOr(TopicAliasMaximum, 0))
}

// SetTopicAliasMaximum sets the highest topic alias that the server takes.
func (p *ConnAck) SetTopicAliasMaximum(aliases uint16) {
	p.setNumber(TopicAliasMaximum, uint32(aliases))
}

// MaximumQoS is the highest quality of service that the server supports; QoS 2 if absent.
func (p *ConnAck) MaximumQoS() QoS { return QoS(p.getNumberOr(MaximumQoS, uint32(ExactlyOnce))) }

// SetMaximumQoS sets the highest quality of service that the server supports. QoS 2 is what holds without the property, which
// is therefore taken away.
func (p *ConnAck) SetMaximumQoS(qos QoS) error {
	if qos == ExactlyOnce {
		p.remove(MaximumQoS)
		return nil
	}
	return p.setChecked(MaximumQoS, uint32(qos))
}

// RetainAvailable is whether the server supports retained messages; yes if absent.
func (p *ConnAck) RetainAvailable() bool { return p.getNumberOr(RetainAvailable, 1) == 1 }

// SetRetainAvailable sets whether the server supports retained messages.
func (p *ConnAck) SetRetainAvailable(available bool) {
	p.setNumber(RetainAvailable, oneIf(available))
}

// WildcardSubscriptionAvailable is whether the server supports wildcard subscriptions; yes if absent.
func (p *ConnAck) WildcardSubscriptionAvailable() bool {
	return p.getNumberOr(WildcardSubscriptionAvailable, 1) == 1
}

// SetWildcardSubscriptionAvailable sets whether the server supports wildcard subscriptions.
func (p *ConnAck) SetWildcardSubscriptionAvailable(available bool) {
	p.setNumber(WildcardSubscriptionAvailable, oneIf(available))
}

// SubscriptionIdentifierAvailable is whether the server supports subscription identifiers; yes if absent.
func (p *ConnAck) SubscriptionIdentifierAvailable() bool {
	return p.getNumberOr(SubscriptionIdentifierAvailable, 1) == 1
}

// SetSubscriptionIdentifierAvailable sets whether the server supports subscription identifiers.
func (p *ConnAck) SetSubscriptionIdentifierAvailable(available bool) {
	p.setNumber(SubscriptionIdentifierAvailable, oneIf(available))
}

// SharedSubscriptionAvailable is whether the server supports shared subscriptions; yes if absent.
func (p *ConnAck) SharedSubscriptionAvailable() bool {
	return p.getNumberOr(SharedSubscriptionAvailable, 1) == 1
}

// SetSharedSubscriptionAvailable sets whether the server supports shared subscriptions.
func (p *ConnAck) SetSharedSubscriptionAvailable(available bool) {
	p.setNumber(SharedSubscriptionAvailable, oneIf(available))
}

// AssignedClientIdentifier is the client identifier that the server chose.
func (p *ConnAck) AssignedClientIdentifier() (clientID string, ok bool) {
	return p.getText(AssignedClientIdentifier)
}

// SetAssignedClientIdentifier sets the client identifier that the server chose. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *ConnAck) SetAssignedClientIdentifier(clientID string) error {
	return p.setText(AssignedClientIdentifier, clientID)
}

// ServerKeepAlive is the keep alive that the server wants in place of that of CONNECT, in seconds [MQTT-3.2.2-21].
func (p *ConnAck) ServerKeepAlive() (seconds uint16, ok bool) {
	number, ok := p.getNumber(ServerKeepAlive)
	return uint16(number), ok
}

// SetServerKeepAlive sets the keep alive that the server wants, in seconds.
func (p *ConnAck) SetServerKeepAlive(seconds uint16) {
	p.setNumber(ServerKeepAlive, uint32(seconds))
}

// ResponseInformation is the basis for response topics.
func (p *ConnAck) ResponseInformation() (information string, ok bool) {
	return p.getText(ResponseInformation)
}

// SetResponseInformation sets the basis for response topics. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *ConnAck) SetResponseInformation(information string) error {
	return p.setText(ResponseInformation, information)
}

// ServerReference is another server to use.
func (p *ConnAck) ServerReference() (reference string, ok bool) { return p.getText(ServerReference) }

// SetServerReference sets another server to use. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *ConnAck) SetServerReference(reference string) error {
	return p.setText(ServerReference, reference)
}

// ReasonString is a reason for people to read.
func (p *ConnAck) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a reason for people to read. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *ConnAck) SetReasonString(reason string) error {
	return p.setText(ReasonString, reason)
}

// AuthenticationMethod is the name of the method of an extended authentication (section 4.12).
func (p *ConnAck) AuthenticationMethod() (method string, ok bool) {
	return p.getText(AuthenticationMethod)
}

// SetAuthenticationMethod sets the name of the method of an extended authentication. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *ConnAck) SetAuthenticationMethod(method string) error {
	return p.setText(AuthenticationMethod, method)
}

// AuthenticationData is data of the authentication method; it needs the method. Do not change it.
func (p *ConnAck) AuthenticationData() (data []byte, ok bool) { return p.getData(AuthenticationData) }

// SetAuthenticationData sets data of the authentication method; WellFormed asks for the method too. It is copied. More than 65,535 bytes are refused.
func (p *ConnAck) SetAuthenticationData(data []byte) error {
	return p.setData(AuthenticationData, data)
}
