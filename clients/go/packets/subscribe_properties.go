package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *Subscribe) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Subscribe) AddProperty(property Property) error { return p.add(TypeSubscribe, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Subscribe) SetProperties(from Properties) error { return p.setAll(TypeSubscribe, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Subscribe) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Subscribe) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Subscribe) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// SubscriptionIdentifier returns the identifier of messages for these subscriptions.
func (p *Subscribe) SubscriptionIdentifier() (id uint32, ok bool) {
	return p.getNumber(SubscriptionIdentifier)
}

// SetSubscriptionIdentifier sets the identifier of messages for these subscriptions. It fails outside of 1 to 268,435,455.
func (p *Subscribe) SetSubscriptionIdentifier(id uint32) error {
	return p.setChecked(SubscriptionIdentifier, id)
}
