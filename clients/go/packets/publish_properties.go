package packets

import "iter"

// Properties returns the properties of the packet, in order.
func (p *Publish) Properties() Properties { return Properties{p.props} }

// AddProperty appends a property. It fails if the property is not allowed here, is out of range, or is present and not repeatable.
func (p *Publish) AddProperty(property Property) error { return p.add(TypePublish, property) }

// SetProperties replaces all properties by those of another packet or will. If one of them is not allowed here, it fails and changes nothing.
func (p *Publish) SetProperties(from Properties) error { return p.setAll(TypePublish, from) }

// RemoveProperty removes all properties with that identifier.
func (p *Publish) RemoveProperty(id PropertyID) { p.remove(id) }

// UserProperties returns the names and values of the user properties, in order.
func (p *Publish) UserProperties() iter.Seq2[string, string] { return p.userProperties() }

// AddUserProperty appends a user property. It fails if a text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Publish) AddUserProperty(name, value string) error {
	return p.addUserProperty(name, value)
}

// PayloadFormat returns the format of the payload; [PayloadBytes] if absent.
func (p *Publish) PayloadFormat() PayloadFormat {
	return PayloadFormat(p.getNumberOr(PayloadFormatIndicator, 0))
}

// SetPayloadFormat sets the format of the payload. The payload is not checked.
func (p *Publish) SetPayloadFormat(format PayloadFormat) error {
	return p.setChecked(PayloadFormatIndicator, uint32(format))
}

// MessageExpiryInterval returns the lifetime of the message, in seconds; if absent, it does not expire.
func (p *Publish) MessageExpiryInterval() (seconds uint32, ok bool) {
	return p.getNumber(MessageExpiryInterval)
}

// SetMessageExpiryInterval sets the lifetime of the message, in seconds.
func (p *Publish) SetMessageExpiryInterval(seconds uint32) {
	p.setNumber(MessageExpiryInterval, seconds)
}

// ContentType returns the content type, such as a MIME type.
func (p *Publish) ContentType() (contentType string, ok bool) { return p.getText(ContentType) }

// SetContentType sets the content type, such as a MIME type. It fails if the text is not well-formed UTF-8, contains U+0000 or exceeds 65,535 bytes.
func (p *Publish) SetContentType(contentType string) error {
	return p.setText(ContentType, contentType)
}

// ResponseTopic returns the topic for a response.
func (p *Publish) ResponseTopic() (topic string, ok bool) { return p.getText(ResponseTopic) }

// SetResponseTopic sets the topic for a response. It fails if that is not a topic name [MQTT-3.3.2-14].
func (p *Publish) SetResponseTopic(topic string) error {
	return p.setText(ResponseTopic, topic)
}

// CorrelationData returns the data that associates a response with its request. Do not modify it.
func (p *Publish) CorrelationData() (data []byte, ok bool) { return p.getData(CorrelationData) }

// SetCorrelationData sets the data that associates a response with its request. It is copied. It fails above 65,535 bytes.
func (p *Publish) SetCorrelationData(data []byte) error {
	return p.setData(CorrelationData, data)
}

// TopicAlias returns the alias of the topic on this connection.
func (p *Publish) TopicAlias() (alias uint16, ok bool) {
	number, ok := p.getNumber(TopicAlias)
	return uint16(number), ok
}

// SetTopicAlias sets the alias of the topic on this connection. It fails for 0 [MQTT-3.3.2-8].
func (p *Publish) SetTopicAlias(alias uint16) error {
	return p.setChecked(TopicAlias, uint32(alias))
}

// SubscriptionIdentifiers returns the identifiers of the matching subscriptions, in order.
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

// AddSubscriptionIdentifier appends a subscription identifier. It fails outside of 1 to 268,435,455. Only servers may send it
// [MQTT-3.3.4-6].
func (p *Publish) AddSubscriptionIdentifier(id uint32) error {
	return p.add(TypePublish, Property{ID: SubscriptionIdentifier, Number: id})
}
