package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *Auth) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Auth) AddProperty(property Property) error { return p.add(TypeAuth, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Auth) SetProperties(from Properties) error { return p.setAll(TypeAuth, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Auth) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Auth) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Auth) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// AuthenticationMethod returns the name of the extended authentication method (section 4.12).
func (p *Auth) AuthenticationMethod() (method string, ok bool) {
	return p.getText(AuthenticationMethod)
}

// SetAuthenticationMethod sets the name of the extended authentication method. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Auth) SetAuthenticationMethod(method string) error {
	return p.setText(AuthenticationMethod, method)
}

// AuthenticationData returns the data of the authentication method. Do not modify it.
func (p *Auth) AuthenticationData() (data []byte, ok bool) { return p.getData(AuthenticationData) }

// SetAuthenticationData sets the data of the authentication method, which WellFormed requires as well. The data is copied. It fails above 65,535 bytes.
func (p *Auth) SetAuthenticationData(data []byte) error {
	return p.setData(AuthenticationData, data)
}

// ReasonString returns a human-readable reason.
func (p *Auth) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a human-readable reason. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Auth) SetReasonString(reason string) error { return p.setText(ReasonString, reason) }
