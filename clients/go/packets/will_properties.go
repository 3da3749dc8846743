package packets

import "iter"

// Properties returns the properties of the will, in order.
func (p *Will) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Will) AddProperty(property Property) error { return p.add(inWill, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Will) SetProperties(from Properties) error { return p.setAll(inWill, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Will) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Will) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Will) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// WillDelayInterval returns the delay of the will after the connection is lost, in seconds; 0 if absent.
func (p *Will) WillDelayInterval() (seconds uint32) { return p.getNumberOr(WillDelayInterval, 0) }

// SetWillDelayInterval sets the delay of the will after the connection is lost, in seconds.
func (p *Will) SetWillDelayInterval(seconds uint32) { p.setNumber(WillDelayInterval, seconds) }

// PayloadFormat returns the format of the payload; [PayloadBytes] if absent.
func (p *Will) PayloadFormat() PayloadFormat {
	return PayloadFormat(p.getNumberOr(PayloadFormatIndicator, 0))
}

// SetPayloadFormat sets the format of the payload. The payload is not checked.
func (p *Will) SetPayloadFormat(format PayloadFormat) error {
	return p.setChecked(PayloadFormatIndicator, uint32(format))
}

// MessageExpiryInterval returns the lifetime of the message, in seconds; if absent, it does not expire.
func (p *Will) MessageExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(MessageExpiryInterval)
}

// SetMessageExpiryInterval sets the lifetime of the message, in seconds.
func (p *Will) SetMessageExpiryInterval(seconds uint32) {
	p.setNumber(MessageExpiryInterval, seconds)
}

// ContentType returns the content type, such as a MIME type.
func (p *Will) ContentType() (contentType string, ok bool) { return p.getText(ContentType) }

// SetContentType sets the content type, such as a MIME type. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Will) SetContentType(contentType string) error {
	return p.setText(ContentType, contentType)
}

// ResponseTopic returns the topic for a response.
func (p *Will) ResponseTopic() (topic string, ok bool) { return p.getText(ResponseTopic) }

// SetResponseTopic sets the topic for a response. It fails if that is not a topic name [MQTT-3.3.2-14].
func (p *Will) SetResponseTopic(topic string) error { return p.setText(ResponseTopic, topic) }

// CorrelationData returns the data that associates a response with its request. Do not modify it.
func (p *Will) CorrelationData() (data []byte, ok bool) { return p.getData(CorrelationData) }

// SetCorrelationData sets the data that associates a response with its request. It is copied. It fails above 65,535 bytes.
func (p *Will) SetCorrelationData(data []byte) error { return p.setData(CorrelationData, data) }
