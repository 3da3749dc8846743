package packets

import "iter"

// Properties are the properties of the will, in their order.
func (p *Will) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Will) AddProperty(property Property) error { return p.add(inWill, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Will) SetProperties(from Properties) error { return p.setAll(inWill, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Will) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Will) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Will) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// WillDelayInterval is how long the will waits after the connection is lost, in seconds; 0 if absent.
func (p *Will) WillDelayInterval() (seconds uint32) { return p.getNumberOr(WillDelayInterval, 0) }

// SetWillDelayInterval sets how long the will waits after the connection is lost, in seconds.
func (p *Will) SetWillDelayInterval(seconds uint32) { p.setNumber(WillDelayInterval, seconds) }

// PayloadFormat says what the payload is made of; [PayloadBytes] if absent.
func (p *Will) PayloadFormat() PayloadFormat {
	return PayloadFormat(p.getNumberOr(PayloadFormatIndicator, 0))
}

// SetPayloadFormat sets what the payload is made of. The payload is not looked at.
func (p *Will) SetPayloadFormat(format PayloadFormat) error {
	return p.setChecked(PayloadFormatIndicator, uint32(format))
}

// MessageExpiryInterval is the lifetime of the message, in seconds; without one it does not expire.
func (p *Will) MessageExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(MessageExpiryInterval)
}

// SetMessageExpiryInterval sets the lifetime of the message, in seconds.
func (p *Will) SetMessageExpiryInterval(seconds uint32) {
	p.setNumber(MessageExpiryInterval, seconds)
}

// ContentType is what the payload is, such as a MIME type.
func (p *Will) ContentType() (contentType string, ok bool) { return p.getText(ContentType) }

// SetContentType sets what the payload is, such as a MIME type. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Will) SetContentType(contentType string) error {
	return p.setText(ContentType, contentType)
}

// ResponseTopic is the topic for a response.
func (p *Will) ResponseTopic() (topic string, ok bool) { return p.getText(ResponseTopic) }

// SetResponseTopic sets the topic for a response. What is no topic name is refused [MQTT-3.3.2-14].
func (p *Will) SetResponseTopic(topic string) error { return p.setText(ResponseTopic, topic) }

// CorrelationData is what tells which request a response belongs to. Do not change it.
func (p *Will) CorrelationData() (data []byte, ok bool) { return p.getData(CorrelationData) }

// SetCorrelationData sets what tells which request a response belongs to. It is copied. More than 65,535 bytes are refused.
func (p *Will) SetCorrelationData(data []byte) error { return p.setData(CorrelationData, data) }
