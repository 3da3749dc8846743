package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *Unsubscribe) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Unsubscribe) AddProperty(property Property) error { return p.add(TypeUnsubscribe, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Unsubscribe) SetProperties(from Properties) error { return p.setAll(TypeUnsubscribe, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Unsubscribe) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Unsubscribe) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Unsubscribe) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}
