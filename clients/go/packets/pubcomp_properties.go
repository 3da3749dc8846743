package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *PubComp) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *PubComp) AddProperty(property Property) error { return p.add(TypePubComp, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *PubComp) SetProperties(from Properties) error { return p.setAll(TypePubComp, from) }

// RemoveProperty removes all properties with that identifier.
func (p *PubComp) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *PubComp) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *PubComp) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// ReasonString returns a human-readable reason.
func (p *PubComp) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a human-readable reason. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *PubComp) SetReasonString(reason string) error {
	return p.setText(ReasonString, reason)
}
