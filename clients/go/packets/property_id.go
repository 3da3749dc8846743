package packets

import "fmt"

// PropertyID is the identifier of a property (section 2.2.2.2).
type PropertyID uint8

// Every property.
const (
	PayloadFormatIndicator          PropertyID = 0x01 // Whether the payload is UTF-8 text.
	MessageExpiryInterval           PropertyID = 0x02 // Lifetime of the message in seconds.
	ContentType                     PropertyID = 0x03 // The content type, such as a MIME type.
	ResponseTopic                   PropertyID = 0x08 // The topic for a response.
	CorrelationData                 PropertyID = 0x09 // Associates a response with its request.
	SubscriptionIdentifier          PropertyID = 0x0B // Identifies the subscription; repeated in PUBLISH when several match.
	SessionExpiryInterval           PropertyID = 0x11 // How long the session outlives its connection, in seconds.
	AssignedClientIdentifier        PropertyID = 0x12 // The client identifier that the server assigned.
	ServerKeepAlive                 PropertyID = 0x13 // The keep alive that replaces that of CONNECT, in seconds.
	AuthenticationMethod            PropertyID = 0x15 // The name of the authentication method.
	AuthenticationData              PropertyID = 0x16 // Data of the authentication method.
	RequestProblemInformation       PropertyID = 0x17 // Whether failures may include reason strings and user properties.
	WillDelayInterval               PropertyID = 0x18 // The delay of the will after the connection is lost, in seconds.
	RequestResponseInformation      PropertyID = 0x19 // Whether the client requests response information.
	ResponseInformation             PropertyID = 0x1A // The prefix of response topics.
	ServerReference                 PropertyID = 0x1C // Another server to use.
	ReasonString                    PropertyID = 0x1F // A human-readable reason.
	ReceiveMaximum                  PropertyID = 0x21 // How many QoS 1 and 2 messages the sender accepts without acknowledging them.
	TopicAliasMaximum               PropertyID = 0x22 // The highest topic alias that the sender accepts.
	TopicAlias                      PropertyID = 0x23 // A number that replaces the topic.
	MaximumQoS                      PropertyID = 0x24 // The highest QoS that the server supports, if not 2.
	RetainAvailable                 PropertyID = 0x25 // Whether the server supports retained messages.
	UserProperty                    PropertyID = 0x26 // A name and a value of the application.
	MaximumPacketSize               PropertyID = 0x27 // The largest packet that the sender accepts, in bytes.
	WildcardSubscriptionAvailable   PropertyID = 0x28 // Whether the server supports wildcard subscriptions.
	SubscriptionIdentifierAvailable PropertyID = 0x29 // Whether the server supports subscription identifiers.
	SharedSubscriptionAvailable     PropertyID = 0x2A // Whether the server supports shared subscriptions.
)

// PropertyType is the encoding of a property value (section 1.5).
type PropertyType uint8

// The types of properties, and the field of [Property] with the value.
const (
	PropertyByte                PropertyType = iota + 1 // One byte; Property.Number.
	PropertyTwoByteInteger                              // Two bytes; Property.Number.
	PropertyFourByteInteger                             // Four bytes; Property.Number.
	PropertyVariableByteInteger                         // One to four bytes; Property.Number.
	PropertyUTF8String                                  // Property.Text.
	PropertyUTF8StringPair                              // Property.Name and Property.Text.
	PropertyBinaryData                                  // Property.Data.
)

// String returns the name of the standard in snake case, such as "content_type".
func (id PropertyID) String() string {
	if row := id.row(); row != nil {
		return row.name
	}
	return fmt.Sprintf("PropertyID(0x%02X)", uint8(id))
}

// Type returns the encoding of the value; 0 if the standard does not define the property.
func (id PropertyID) Type() PropertyType {
	if row := id.row(); row != nil {
		return row.dataType
	}
	return 0
}

// place is the context of a property block: a packet type, or 0 for the will.
type place = Type

const inWill place = 0

func (id PropertyID) row() *propertyRow {
	if int(id) < len(propertyRows) && propertyRows[id].name != "" {
		return &propertyRows[id]
	}
	return nil
}

// bit is one bit for each property, for sets of them. The property is one of the constants.
func (id PropertyID) bit() uint32 { return propertyRows[id].bit }

// propertyRow describes a property according to the standard.
type propertyRow struct {
	name     string
	dataType PropertyType
	bit      uint32
	// places and repeats have one bit for each place: where it is allowed, and where it may be repeated.
	places, repeats uint16
	// fault is the error for a byte above 1 or an integer of 0, if the standard does not allow them.
	fault Cause
}

const everywhere = 1<<inWill | 1<<TypeConnect | 1<<TypeConnAck | 1<<TypePublish | 1<<TypePubAck | 1<<TypePubRec |
	1<<TypePubRel | 1<<TypePubComp | 1<<TypeSubscribe | 1<<TypeSubAck | 1<<TypeUnsubscribe | 1<<TypeUnsubAck |
	1<<TypeDisconnect | 1<<TypeAuth

var propertyRows = [0x2B]propertyRow{
	PayloadFormatIndicator:          {"payload_format_indicator", PropertyByte, 1 << 0, 1<<TypePublish | 1<<inWill, 0, CausePayloadFormatUnknown},
	MessageExpiryInterval:           {"message_expiry_interval", PropertyFourByteInteger, 1 << 1, 1<<TypePublish | 1<<inWill, 0, causeNone},
	ContentType:                     {"content_type", PropertyUTF8String, 1 << 2, 1<<TypePublish | 1<<inWill, 0, causeNone},
	ResponseTopic:                   {"response_topic", PropertyUTF8String, 1 << 3, 1<<TypePublish | 1<<inWill, 0, CauseResponseTopicInvalid},
	CorrelationData:                 {"correlation_data", PropertyBinaryData, 1 << 4, 1<<TypePublish | 1<<inWill, 0, causeNone},
	SubscriptionIdentifier:          {"subscription_identifier", PropertyVariableByteInteger, 1 << 5, 1<<TypePublish | 1<<TypeSubscribe, 1 << TypePublish, CauseSubscriptionIDZero},
	SessionExpiryInterval:           {"session_expiry_interval", PropertyFourByteInteger, 1 << 6, 1<<TypeConnect | 1<<TypeConnAck | 1<<TypeDisconnect, 0, causeNone},
	AssignedClientIdentifier:        {"assigned_client_identifier", PropertyUTF8String, 1 << 7, 1 << TypeConnAck, 0, causeNone},
	ServerKeepAlive:                 {"server_keep_alive", PropertyTwoByteInteger, 1 << 8, 1 << TypeConnAck, 0, causeNone},
	AuthenticationMethod:            {"authentication_method", PropertyUTF8String, 1 << 9, 1<<TypeConnect | 1<<TypeConnAck | 1<<TypeAuth, 0, causeNone},
	AuthenticationData:              {"authentication_data", PropertyBinaryData, 1 << 10, 1<<TypeConnect | 1<<TypeConnAck | 1<<TypeAuth, 0, causeNone},
	RequestProblemInformation:       {"request_problem_information", PropertyByte, 1 << 11, 1 << TypeConnect, 0, CausePropertyNotBoolean},
	WillDelayInterval:               {"will_delay_interval", PropertyFourByteInteger, 1 << 12, 1 << inWill, 0, causeNone},
	RequestResponseInformation:      {"request_response_information", PropertyByte, 1 << 13, 1 << TypeConnect, 0, CausePropertyNotBoolean},
	ResponseInformation:             {"response_information", PropertyUTF8String, 1 << 14, 1 << TypeConnAck, 0, causeNone},
	ServerReference:                 {"server_reference", PropertyUTF8String, 1 << 15, 1<<TypeConnAck | 1<<TypeDisconnect, 0, causeNone},
	ReasonString:                    {"reason_string", PropertyUTF8String, 1 << 16, 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypePubRel | 1<<TypePubComp | 1<<TypeSubAck | 1<<TypeUnsubAck | 1<<TypeDisconnect | 1<<TypeAuth, 0, causeNone},
	ReceiveMaximum:                  {"receive_maximum", PropertyTwoByteInteger, 1 << 17, 1<<TypeConnect | 1<<TypeConnAck, 0, CauseReceiveMaximumZero},
	TopicAliasMaximum:               {"topic_alias_maximum", PropertyTwoByteInteger, 1 << 18, 1<<TypeConnect | 1<<TypeConnAck, 0, causeNone},
	TopicAlias:                      {"topic_alias", PropertyTwoByteInteger, 1 << 19, 1 << TypePublish, 0, CauseTopicAliasZero},
	MaximumQoS:                      {"maximum_qos", PropertyByte, 1 << 20, 1 << TypeConnAck, 0, CauseMaximumQoSOutOfRange},
	RetainAvailable:                 {"retain_available", PropertyByte, 1 << 21, 1 << TypeConnAck, 0, CausePropertyNotBoolean},
	UserProperty:                    {"user_property", PropertyUTF8StringPair, 1 << 22, everywhere, everywhere, causeNone},
	MaximumPacketSize:               {"maximum_packet_size", PropertyFourByteInteger, 1 << 23, 1<<TypeConnect | 1<<TypeConnAck, 0, CauseMaximumPacketSizeZero},
	WildcardSubscriptionAvailable:   {"wildcard_subscription_available", PropertyByte, 1 << 24, 1 << TypeConnAck, 0, CausePropertyNotBoolean},
	SubscriptionIdentifierAvailable: {"subscription_identifier_available", PropertyByte, 1 << 25, 1 << TypeConnAck, 0, CausePropertyNotBoolean},
	SharedSubscriptionAvailable:     {"shared_subscription_available", PropertyByte, 1 << 26, 1 << TypeConnAck, 0, CausePropertyNotBoolean},
}
