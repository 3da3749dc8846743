package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *Subscribe) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Subscribe) AddProperty(property Property) error { return p.add(TypeSubscribe, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Subscribe) SetProperties(from Properties) error { return p.setAll(TypeSubscribe, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Subscribe) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Subscribe) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Subscribe) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SubscriptionIdentifier is the identifier that messages for these subscriptions will carry.
func (p *Subscribe) SubscriptionIdentifier() (id uint32, ok bool) {
	return p.getNumber(SubscriptionIdentifier)
}

// SetSubscriptionIdentifier sets the identifier that messages for these subscriptions will carry, 1 to 268,435,455; others are refused.
func (p *Subscribe) SetSubscriptionIdentifier(id uint32) error {
	return p.setChecked(SubscriptionIdentifier, id)
}
