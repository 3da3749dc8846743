package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *Disconnect) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Disconnect) AddProperty(property Property) error { return p.add(TypeDisconnect, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Disconnect) SetProperties(from Properties) error { return p.setAll(TypeDisconnect, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Disconnect) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Disconnect) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Disconnect) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SessionExpiryInterval is how long the session outlives its connection, in seconds; without one, as long as CONNECT asked.
func (p *Disconnect) SessionExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(SessionExpiryInterval)
}

// SetSessionExpiryInterval sets how long the session outlives its connection, in seconds; [SessionNeverExpires] for no end.
func (p *Disconnect) SetSessionExpiryInterval(seconds uint32) {
	p.setNumber(SessionExpiryInterval, seconds)
}

// ReasonString is a reason for people to read.
func (p *Disconnect) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a reason for people to read. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Disconnect) SetReasonString(reason string) error {
	return p.setText(ReasonString, reason)
}

// ServerReference is another server to use.
func (p *Disconnect) ServerReference() (reference string, ok bool) { return p.getText(ServerReference) }

// SetServerReference sets another server to use. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Disconnect) SetServerReference(reference string) error {
	return p.setText(ServerReference, reference)
}
