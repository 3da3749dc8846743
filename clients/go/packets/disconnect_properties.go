package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *Disconnect) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Disconnect) AddProperty(property Property) error { return p.add(TypeDisconnect, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Disconnect) SetProperties(from Properties) error { return p.setAll(TypeDisconnect, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Disconnect) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Disconnect) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Disconnect) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SessionExpiryInterval returns how long the session outlives its connection, in seconds; if absent, that of CONNECT applies.
func (p *Disconnect) SessionExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(SessionExpiryInterval)
}

// SetSessionExpiryInterval sets how long the session outlives its connection, in seconds; [SessionNeverExpires] for ever.
func (p *Disconnect) SetSessionExpiryInterval(seconds uint32) {
	p.setNumber(SessionExpiryInterval, seconds)
}

// ReasonString returns a human-readable reason.
func (p *Disconnect) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a human-readable reason. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Disconnect) SetReasonString(reason string) error {
	return p.setText(ReasonString, reason)
}

// ServerReference returns another server to use.
func (p *Disconnect) ServerReference() (reference string, ok bool) { return p.getText(ServerReference) }

// SetServerReference sets another server to use. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Disconnect) SetServerReference(reference string) error {
	return p.setText(ServerReference, reference)
}
