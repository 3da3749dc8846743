package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *Auth) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Auth) AddProperty(property Property) error { return p.add(TypeAuth, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Auth) SetProperties(from Properties) error { return p.setAll(TypeAuth, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Auth) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Auth) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Auth) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// AuthenticationMethod is the name of the method of an extended authentication (section 4.12).
func (p *Auth) AuthenticationMethod() (method string, ok bool) {
	return p.getText(AuthenticationMethod)
}

// SetAuthenticationMethod sets the name of the method of an extended authentication. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Auth) SetAuthenticationMethod(method string) error {
	return p.setText(AuthenticationMethod, method)
}

// AuthenticationData is data of the authentication method; it needs the method. Do not change it.
func (p *Auth) AuthenticationData() (data []byte, ok bool) { return p.getData(AuthenticationData) }

// SetAuthenticationData sets data of the authentication method; WellFormed asks for the method too. It is copied. More than 65,535 bytes are refused.
func (p *Auth) SetAuthenticationData(data []byte) error {
	return p.setData(AuthenticationData, data)
}

// ReasonString is a reason for people to read.
func (p *Auth) ReasonString() (reason string, ok bool) { return p.getText(ReasonString) }

// SetReasonString sets a reason for people to read. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Auth) SetReasonString(reason string) error { return p.setText(ReasonString, reason) }
