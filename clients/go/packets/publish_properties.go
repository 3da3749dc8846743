package packets

import "iter"

// Properties are the properties of the packet, in their order.
func (p *Publish) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. One that may not stand here, is out of range, or may stand once alone and does, is refused.
func (p *Publish) AddProperty(property Property) error { return p.add(TypePublish, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them may not stand here, nothing changes.
func (p *Publish) SetProperties(from Properties) error { return p.setAll(TypePublish, from) }

// RemoveProperty takes all properties of that identifier away.
func (p *Publish) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties are the names and values of the user properties, in their order.
func (p *Publish) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. Text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Publish) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// PayloadFormat says what the payload is made of; [PayloadBytes] if absent.
func (p *Publish) PayloadFormat() PayloadFormat {
	return PayloadFormat(p.getNumberOr(PayloadFormatIndicator, 0))
}

// SetPayloadFormat sets what the payload is made of. The payload is not looked at.
func (p *Publish) SetPayloadFormat(format PayloadFormat) error {
	return p.setChecked(PayloadFormatIndicator, uint32(format))
}

// MessageExpiryInterval is the lifetime of the message, in seconds; without one it does not expire.
func (p *Publish) MessageExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(MessageExpiryInterval)
}

// SetMessageExpiryInterval sets the lifetime of the message, in seconds.
func (p *Publish) SetMessageExpiryInterval(seconds uint32) {
	p.setNumber(MessageExpiryInterval, seconds)
}

// ContentType is what the payload is, such as a MIME type.
func (p *Publish) ContentType() (contentType string, ok bool) { return p.getText(ContentType) }

// SetContentType sets what the payload is, such as a MIME type. A text that is not well-formed UTF-8, has U+0000 or more than 65,535 bytes is refused.
func (p *Publish) SetContentType(contentType string) error {
	return p.setText(ContentType, contentType)
}

// ResponseTopic is the topic for a response.
func (p *Publish) ResponseTopic() (topic string, ok bool) { return p.getText(ResponseTopic) }

// SetResponseTopic sets the topic for a response. What is no topic name is refused [MQTT-3.3.2-14].
func (p *Publish) SetResponseTopic(topic string) error {
	return p.setText(ResponseTopic, topic)
}

// CorrelationData is what tells which request a response belongs to. Do not change it.
func (p *Publish) CorrelationData() (data []byte, ok bool) { return p.getData(CorrelationData) }

// SetCorrelationData sets what tells which request a response belongs to. It is copied. More than 65,535 bytes are refused.
func (p *Publish) SetCorrelationData(data []byte) error {
	return p.setData(CorrelationData, data)
}

// TopicAlias is the number that stands for the topic on this connection.
func (p *Publish) TopicAlias() (alias uint16, ok bool) {
	number, ok := p.getNumber(TopicAlias)
	return uint16(number), ok
}

// SetTopicAlias sets the number that stands for the topic on this connection. 0 is refused [MQTT-3.3.2-8].
func (p *Publish) SetTopicAlias(alias uint16) error {
	return p.setChecked(TopicAlias, uint32(alias))
}

// SubscriptionIdentifiers identify the subscriptions that the message is for, in their order.
func (p *Publish) SubscriptionIdentifiers() iter.Seq[uint32] {
	all := Properties{p.props}
	return func(yield func(uint32) bool) {
		if !all.has(SubscriptionIdentifier) {
			return
		}
		for property := range all.All() {
			if property.ID == SubscriptionIdentifier && !yield(property.Number) {
				return
			}
		}
	}
}

// AddSubscriptionIdentifier appends a subscription identifier, 1 to 268,435,455; others are refused. Servers alone may send it
// [MQTT-3.3.4-6].
func (p *Publish) AddSubscriptionIdentifier(id uint32) error {
	return p.add(TypePublish, Property{ID: SubscriptionIdentifier, Number: id})
}
