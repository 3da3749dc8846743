package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *Unsubscribe) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Unsubscribe) AddProperty(property Property) error { return p.add(TypeUnsubscribe, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Unsubscribe) SetProperties(from Properties) error { return p.setAll(TypeUnsubscribe, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Unsubscribe) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Unsubscribe) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Unsubscribe) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}
