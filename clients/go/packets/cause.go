package packets

// Cause names the check that failed: when decoding, in a setter, or in WellFormed. It is an error itself, for errors.Is:
//
//	if errors.Is(err, packets.CauseTopicWildcard) { … }
type Cause uint8

// Every check.
const (
	causeNone Cause = iota
	// CauseIncomplete: the packet is not whole yet: wait for more bytes.
	CauseIncomplete
	// CausePacketTooLarge: the packet is larger than the receiver accepts: send smaller packets.
	CausePacketTooLarge
	// CausePacketTypeReserved: packet type 0 is reserved: send a type from 1 to 15.
	CausePacketTypeReserved
	// CauseAuthBeforeV5: AUTH exists in MQTT 5.0 alone: do not send it in 3.1.1.
	CauseAuthBeforeV5
	// CauseFlagsReserved: the lower four bits of the first byte are not those of this packet type: send the listed value.
	CauseFlagsReserved
	// CausePublishQoSThree: both QoS bits of PUBLISH are set: send QoS 0, 1 or 2.
	CausePublishQoSThree
	// CauseDupWithQoSZero: DUP is set on a QoS 0 message: set it on QoS 1 and 2 alone.
	CauseDupWithQoSZero
	// CauseVariableByteIntegerTooLong: a variable byte integer is longer than four bytes: send at most four.
	CauseVariableByteIntegerTooLong
	// CauseVariableByteIntegerNotMinimal: a variable byte integer uses more bytes than it needs: send the shortest form.
	CauseVariableByteIntegerNotMinimal
	// CauseFieldPastEnd: a field runs past the end of the packet: correct its length or the remaining length.
	CauseFieldPastEnd
	// CauseTrailingBytes: bytes follow the last field of the packet: correct the remaining length.
	CauseTrailingBytes
	// CauseUTF8Invalid: a string is not well-formed UTF-8: encode it as UTF-8 without surrogates.
	CauseUTF8Invalid
	// CauseUTF8Null: a string contains U+0000: remove it.
	CauseUTF8Null
	// CausePacketIDZero: the packet identifier is 0: use 1 to 65535.
	CausePacketIDZero
	// CauseReasonCodeUnknown: the reason code is not one of this packet's: send a listed one.
	CauseReasonCodeUnknown
	// CausePropertyBlockPastEnd: the property length runs past the end of the packet: correct it.
	CausePropertyBlockPastEnd
	// CausePropertyPastBlock: a property runs past the property length: correct one of the two.
	CausePropertyPastBlock
	// CausePropertyUnknown: the property identifier is not defined: send defined properties alone.
	CausePropertyUnknown
	// CausePropertyNotAllowed: the property may not stand in this packet: remove it.
	CausePropertyNotAllowed
	// CausePropertyRepeated: the property may stand once alone: send it once.
	CausePropertyRepeated
	// CausePropertyNotBoolean: the property is neither 0 nor 1: send 0 or 1.
	CausePropertyNotBoolean
	// CausePayloadFormatUnknown: the payload format indicator is neither 0 nor 1: send 0 for bytes or 1 for UTF-8.
	CausePayloadFormatUnknown
	// CauseMaximumQoSOutOfRange: the maximum QoS is neither 0 nor 1: leave the property out for QoS 2.
	CauseMaximumQoSOutOfRange
	// CauseReceiveMaximumZero: the receive maximum is 0: send 1 to 65535.
	CauseReceiveMaximumZero
	// CauseMaximumPacketSizeZero: the maximum packet size is 0: leave the property out for no limit.
	CauseMaximumPacketSizeZero
	// CauseTopicAliasZero: the topic alias is 0: use 1 to the receiver's topic alias maximum.
	CauseTopicAliasZero
	// CauseSubscriptionIDZero: the subscription identifier is 0: use 1 to 268435455.
	CauseSubscriptionIDZero
	// CauseResponseTopicInvalid: the response topic is empty or contains a wildcard: send a topic name.
	CauseResponseTopicInvalid
	// CauseAuthenticationDataAlone: authentication data comes without an authentication method: send both.
	CauseAuthenticationDataAlone
	// CauseAuthenticationMethodMissing: AUTH names no authentication method: send the method of the CONNECT.
	CauseAuthenticationMethodMissing
	// CauseProtocolNameUnknown: the protocol name is neither MQTT nor MQIsdp: speak MQTT.
	CauseProtocolNameUnknown
	// CauseProtocolLevelUnsupported: the protocol level is not supported: use 3 with MQIsdp, 4 or 5 with MQTT.
	CauseProtocolLevelUnsupported
	// CauseConnectFlagReserved: the reserved bit of the connect flags is set: send 0.
	CauseConnectFlagReserved
	// CauseWillFlagsWithoutWill: will QoS or will retain is set without the will flag: clear them or send a will.
	CauseWillFlagsWithoutWill
	// CauseWillQoSThree: the will QoS is 3: send 0, 1 or 2.
	CauseWillQoSThree
	// CausePasswordWithoutUserName: before MQTT 5.0 a password needs a user name: send both.
	CausePasswordWithoutUserName
	// CauseWillTopicInvalid: the will topic is empty or contains a wildcard: send a topic name.
	CauseWillTopicInvalid
	// CauseConnAckFlagsReserved: a reserved bit of the connect acknowledge flags is set: send 0.
	CauseConnAckFlagsReserved
	// CauseSessionPresentOnFailure: session present is set although the connection is refused: send 0.
	CauseSessionPresentOnFailure
	// CauseTopicMissing: the topic name is empty and no topic alias stands for it: send one of them.
	CauseTopicMissing
	// CauseTopicWildcard: the topic name contains + or #: publish to one exact topic.
	CauseTopicWildcard
	// CauseTopicFilterEmpty: the topic filter is empty: use at least one character.
	CauseTopicFilterEmpty
	// CauseTopicFilterMultiLevel: # is allowed at the end of a topic filter alone: move or remove it.
	CauseTopicFilterMultiLevel
	// CauseTopicFilterWildcard: a wildcard must fill its whole level: put it between slashes.
	CauseTopicFilterWildcard
	// CauseShareNameInvalid: the share name is empty or contains + or #: send $share/NAME/FILTER.
	CauseShareNameInvalid
	// CauseShareFilterMissing: no topic filter follows the share name: send $share/NAME/FILTER.
	CauseShareFilterMissing
	// CauseNoTopicFilters: the packet holds no topic filter: send at least one.
	CauseNoTopicFilters
	// CauseNoReasonCodes: the packet holds no reason code: send one for each topic filter.
	CauseNoReasonCodes
	// CauseSubscriptionOptionsReserved: a reserved bit of the subscription options is set: send 0.
	CauseSubscriptionOptionsReserved
	// CauseSubscriptionQoSThree: the maximum QoS of the subscription is 3: send 0, 1 or 2.
	CauseSubscriptionQoSThree
	// CauseRetainHandlingThree: the retain handling is 3: send 0, 1 or 2.
	CauseRetainHandlingThree
	// CauseNoLocalOnShared: no local is set on a shared subscription: clear it.
	CauseNoLocalOnShared
	// CauseFieldTooLong: a string or binary field is longer than 65,535 bytes: shorten it.
	CauseFieldTooLong
	// CauseRemainingLengthTooLarge: the remaining length would be more than 268,435,455 bytes: send less in one packet.
	CauseRemainingLengthTooLarge
	// CauseQoSUnknown: the QoS is none of 0, 1 and 2: use one of them.
	CauseQoSUnknown
	// CausePacketIDWithQoSZero: a QoS 0 message has no packet identifier: set QoS 1 or 2 first, or leave it out.
	CausePacketIDWithQoSZero
	// CauseSubscriptionIDTooLarge: the subscription identifier is more than 268435455: use a smaller one.
	CauseSubscriptionIDTooLarge
	// CausePropertyTypeWrong: the value is not of the property's type, or too large for it: see PropertyID.Type.
	CausePropertyTypeWrong
	// CauseNotInVersion: this version of the protocol cannot express it: leave it out or speak MQTT 5.0.
	CauseNotInVersion
	// CauseVersionUnknown: the protocol version is none of 3.1, 3.1.1 and 5.0: use V31, V311 or V5.
	CauseVersionUnknown
	causeCount
)

// Code is a stable name for programs and logs, such as "topic_wildcard".
func (c Cause) Code() string { return c.row().code }

// Statement is the normative statement of MQTT 5.0 that the check serves, such as "MQTT-3.3.2-2"; empty where the standard
// has prose alone.
func (c Cause) Statement() string { return c.row().statement }

// Reason is the reason code to answer with.
func (c Cause) Reason() ReasonCode { return c.row().reason }

// Fault says who is at fault.
func (c Cause) Fault() Fault { return c.row().fault }

// Error says what is wrong and what to do.
func (c Cause) Error() string { return c.row().text }

func (c Cause) row() *causeRow {
	if c >= causeCount {
		c = causeNone
	}
	return &causes[c]
}

type causeRow struct {
	code      string
	fault     Fault
	reason    ReasonCode
	statement string
	text      string
}

var causes = [causeCount]causeRow{
	causeNone: {"none", FaultMalformed, ReasonUnspecifiedError, "", "nothing is known to be wrong"},
	CauseIncomplete: {"incomplete", FaultIncomplete, ReasonMalformedPacket, "",
		"the packet is not whole yet: wait for more bytes"},
	CausePacketTooLarge: {"packet_too_large", FaultTooLarge, ReasonPacketTooLarge, "MQTT-3.2.2-15",
		"the packet is larger than the receiver accepts: send smaller packets"},
	CausePacketTypeReserved: {"packet_type_reserved", FaultMalformed, ReasonMalformedPacket, "MQTT-2.1.3-1",
		"packet type 0 is reserved: send a type from 1 to 15"},
	CauseAuthBeforeV5: {"auth_before_v5", FaultMalformed, ReasonMalformedPacket, "",
		"AUTH exists in MQTT 5.0 alone: do not send it in 3.1.1"},
	CauseFlagsReserved: {"flags_reserved", FaultMalformed, ReasonMalformedPacket, "MQTT-2.1.3-1",
		"the lower four bits of the first byte are not those of this packet type: send the listed value"},
	CausePublishQoSThree: {"publish_qos_three", FaultMalformed, ReasonMalformedPacket, "MQTT-3.3.1-4",
		"both QoS bits of PUBLISH are set: send QoS 0, 1 or 2"},
	CauseDupWithQoSZero: {"dup_with_qos_zero", FaultMalformed, ReasonMalformedPacket, "MQTT-3.3.1-2",
		"DUP is set on a QoS 0 message: set it on QoS 1 and 2 alone"},
	CauseVariableByteIntegerTooLong: {"variable_byte_integer_too_long", FaultMalformed, ReasonMalformedPacket, "",
		"a variable byte integer is longer than four bytes: send at most four"},
	CauseVariableByteIntegerNotMinimal: {"variable_byte_integer_not_minimal", FaultMalformed, ReasonMalformedPacket, "MQTT-1.5.5-1",
		"a variable byte integer uses more bytes than it needs: send the shortest form"},
	CauseFieldPastEnd: {"field_past_end", FaultMalformed, ReasonMalformedPacket, "",
		"a field runs past the end of the packet: correct its length or the remaining length"},
	CauseTrailingBytes: {"trailing_bytes", FaultMalformed, ReasonMalformedPacket, "",
		"bytes follow the last field of the packet: correct the remaining length"},
	CauseUTF8Invalid: {"utf8_invalid", FaultMalformed, ReasonMalformedPacket, "MQTT-1.5.4-1",
		"a string is not well-formed UTF-8: encode it as UTF-8 without surrogates"},
	CauseUTF8Null: {"utf8_null", FaultMalformed, ReasonMalformedPacket, "MQTT-1.5.4-2",
		"a string contains U+0000: remove it"},
	CausePacketIDZero: {"packet_id_zero", FaultProtocolError, ReasonProtocolError, "MQTT-2.2.1-3",
		"the packet identifier is 0: use 1 to 65535"},
	CauseReasonCodeUnknown: {"reason_code_unknown", FaultProtocolError, ReasonProtocolError, "",
		"the reason code is not one of this packet's: send a listed one"},
	CausePropertyBlockPastEnd: {"property_block_past_end", FaultMalformed, ReasonMalformedPacket, "",
		"the property length runs past the end of the packet: correct it"},
	CausePropertyPastBlock: {"property_past_block", FaultMalformed, ReasonMalformedPacket, "",
		"a property runs past the property length: correct one of the two"},
	CausePropertyUnknown: {"property_unknown", FaultMalformed, ReasonMalformedPacket, "",
		"the property identifier is not defined: send defined properties alone"},
	CausePropertyNotAllowed: {"property_not_allowed", FaultMalformed, ReasonMalformedPacket, "",
		"the property may not stand in this packet: remove it"},
	CausePropertyRepeated: {"property_repeated", FaultProtocolError, ReasonProtocolError, "",
		"the property may stand once alone: send it once"},
	CausePropertyNotBoolean: {"property_not_boolean", FaultProtocolError, ReasonProtocolError, "",
		"the property is neither 0 nor 1: send 0 or 1"},
	CausePayloadFormatUnknown: {"payload_format_unknown", FaultProtocolError, ReasonProtocolError, "",
		"the payload format indicator is neither 0 nor 1: send 0 for bytes or 1 for UTF-8"},
	CauseMaximumQoSOutOfRange: {"maximum_qos_out_of_range", FaultProtocolError, ReasonProtocolError, "",
		"the maximum QoS is neither 0 nor 1: leave the property out for QoS 2"},
	CauseReceiveMaximumZero: {"receive_maximum_zero", FaultProtocolError, ReasonProtocolError, "",
		"the receive maximum is 0: send 1 to 65535"},
	CauseMaximumPacketSizeZero: {"maximum_packet_size_zero", FaultProtocolError, ReasonProtocolError, "",
		"the maximum packet size is 0: leave the property out for no limit"},
	CauseTopicAliasZero: {"topic_alias_zero", FaultProtocolError, ReasonTopicAliasInvalid, "MQTT-3.3.2-8",
		"the topic alias is 0: use 1 to the receiver's topic alias maximum"},
	CauseSubscriptionIDZero: {"subscription_id_zero", FaultProtocolError, ReasonProtocolError, "",
		"the subscription identifier is 0: use 1 to 268435455"},
	CauseResponseTopicInvalid: {"response_topic_invalid", FaultProtocolError, ReasonTopicNameInvalid, "MQTT-3.3.2-14",
		"the response topic is empty or contains a wildcard: send a topic name"},
	CauseAuthenticationDataAlone: {"authentication_data_alone", FaultProtocolError, ReasonProtocolError, "",
		"authentication data comes without an authentication method: send both"},
	CauseAuthenticationMethodMissing: {"authentication_method_missing", FaultProtocolError, ReasonProtocolError, "",
		"AUTH names no authentication method: send the method of the CONNECT"},
	CauseProtocolNameUnknown: {"protocol_name_unknown", FaultProtocolError, ReasonUnsupportedProtocolVersion, "MQTT-3.1.2-1",
		"the protocol name is neither MQTT nor MQIsdp: speak MQTT"},
	CauseProtocolLevelUnsupported: {"protocol_level_unsupported", FaultProtocolError, ReasonUnsupportedProtocolVersion, "MQTT-3.1.2-2",
		"the protocol level is not supported: use 3 with MQIsdp, 4 or 5 with MQTT"},
	CauseConnectFlagReserved: {"connect_flag_reserved", FaultMalformed, ReasonMalformedPacket, "MQTT-3.1.2-3",
		"the reserved bit of the connect flags is set: send 0"},
	CauseWillFlagsWithoutWill: {"will_flags_without_will", FaultMalformed, ReasonMalformedPacket, "MQTT-3.1.2-11",
		"will QoS or will retain is set without the will flag: clear them or send a will"},
	CauseWillQoSThree: {"will_qos_three", FaultMalformed, ReasonMalformedPacket, "MQTT-3.1.2-12",
		"the will QoS is 3: send 0, 1 or 2"},
	CausePasswordWithoutUserName: {"password_without_user_name", FaultMalformed, ReasonMalformedPacket, "",
		"before MQTT 5.0 a password needs a user name: send both"},
	CauseWillTopicInvalid: {"will_topic_invalid", FaultProtocolError, ReasonTopicNameInvalid, "MQTT-4.7.0-1",
		"the will topic is empty or contains a wildcard: send a topic name"},
	CauseConnAckFlagsReserved: {"connack_flags_reserved", FaultMalformed, ReasonMalformedPacket, "MQTT-3.2.2-1",
		"a reserved bit of the connect acknowledge flags is set: send 0"},
	CauseSessionPresentOnFailure: {"session_present_on_failure", FaultProtocolError, ReasonProtocolError, "MQTT-3.2.2-6",
		"session present is set although the connection is refused: send 0"},
	CauseTopicMissing: {"topic_missing", FaultProtocolError, ReasonProtocolError, "MQTT-4.7.3-1",
		"the topic name is empty and no topic alias stands for it: send one of them"},
	CauseTopicWildcard: {"topic_wildcard", FaultProtocolError, ReasonTopicNameInvalid, "MQTT-3.3.2-2",
		"the topic name contains + or #: publish to one exact topic"},
	CauseTopicFilterEmpty: {"topic_filter_empty", FaultProtocolError, ReasonTopicFilterInvalid, "MQTT-4.7.3-1",
		"the topic filter is empty: use at least one character"},
	CauseTopicFilterMultiLevel: {"topic_filter_multi_level", FaultProtocolError, ReasonTopicFilterInvalid, "MQTT-4.7.1-1",
		"# is allowed at the end of a topic filter alone: move or remove it"},
	CauseTopicFilterWildcard: {"topic_filter_wildcard", FaultProtocolError, ReasonTopicFilterInvalid, "MQTT-4.7.1-2",
		"a wildcard must fill its whole level: put it between slashes"},
	CauseShareNameInvalid: {"share_name_invalid", FaultProtocolError, ReasonTopicFilterInvalid, "MQTT-4.8.2-1",
		"the share name is empty or contains + or #: send $share/NAME/FILTER"},
	CauseShareFilterMissing: {"share_filter_missing", FaultProtocolError, ReasonTopicFilterInvalid, "MQTT-4.8.2-2",
		"no topic filter follows the share name: send $share/NAME/FILTER"},
	CauseNoTopicFilters: {"no_topic_filters", FaultProtocolError, ReasonProtocolError, "MQTT-3.8.3-2",
		"the packet holds no topic filter: send at least one"},
	CauseNoReasonCodes: {"no_reason_codes", FaultProtocolError, ReasonProtocolError, "MQTT-3.8.4-6",
		"the packet holds no reason code: send one for each topic filter"},
	CauseSubscriptionOptionsReserved: {"subscription_options_reserved", FaultMalformed, ReasonMalformedPacket, "MQTT-3.8.3-5",
		"a reserved bit of the subscription options is set: send 0"},
	CauseSubscriptionQoSThree: {"subscription_qos_three", FaultProtocolError, ReasonProtocolError, "",
		"the maximum QoS of the subscription is 3: send 0, 1 or 2"},
	CauseRetainHandlingThree: {"retain_handling_three", FaultProtocolError, ReasonProtocolError, "",
		"the retain handling is 3: send 0, 1 or 2"},
	CauseNoLocalOnShared: {"no_local_on_shared", FaultProtocolError, ReasonProtocolError, "MQTT-3.8.3-4",
		"no local is set on a shared subscription: clear it"},
	CauseFieldTooLong: {"field_too_long", FaultMalformed, ReasonMalformedPacket, "",
		"a string or binary field is longer than 65,535 bytes: shorten it"},
	CauseRemainingLengthTooLarge: {"remaining_length_too_large", FaultTooLarge, ReasonPacketTooLarge, "",
		"the remaining length would be more than 268,435,455 bytes: send less in one packet"},
	CauseQoSUnknown: {"qos_unknown", FaultMalformed, ReasonMalformedPacket, "MQTT-3.3.1-4",
		"the QoS is none of 0, 1 and 2: use one of them"},
	CausePacketIDWithQoSZero: {"packet_id_with_qos_zero", FaultMalformed, ReasonMalformedPacket, "MQTT-2.2.1-2",
		"a QoS 0 message has no packet identifier: set QoS 1 or 2 first, or leave it out"},
	CauseSubscriptionIDTooLarge: {"subscription_id_too_large", FaultMalformed, ReasonMalformedPacket, "",
		"the subscription identifier is more than 268435455: use a smaller one"},
	CausePropertyTypeWrong: {"property_type_wrong", FaultMalformed, ReasonMalformedPacket, "",
		"the value is not of the property's type, or too large for it: see PropertyID.Type"},
	CauseNotInVersion: {"not_in_version", FaultProtocolError, ReasonProtocolError, "",
		"this version of the protocol cannot express it: leave it out or speak MQTT 5.0"},
	CauseVersionUnknown: {"version_unknown", FaultProtocolError, ReasonUnsupportedProtocolVersion, "MQTT-3.1.2-2",
		"the protocol version is none of 3.1, 3.1.1 and 5.0: use V31, V311 or V5"},
}
