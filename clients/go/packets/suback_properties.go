package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *SubAck) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *SubAck) AddProperty(property Property) error { return p.add(TypeSubAck, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *SubAck) SetProperties(from Properties) error { return p.setAll(TypeSubAck, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *SubAck) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *SubAck) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *SubAck) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// ReasonString is a reason for people to read.
func (p *SubAck) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a reason for people to read. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *SubAck) SetReasonString(reason string) error {
	return p.setText(ReasonString, reason)
}
