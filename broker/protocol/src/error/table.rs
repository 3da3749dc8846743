//! Written by `make errors` from `spec/errors/errors.toml`.

use super::cause::causes;
use super::words::{Words, words};

causes! {
    Incomplete: "incomplete", Incomplete MalformedPacket, None,
        "the packet is not complete yet: wait for more bytes";
    PacketTooLarge: "packet_too_large", OverLimit PacketTooLarge, Some("MQTT-3.2.2-15"),
        "the packet is larger than its receiver accepts, or than MQTT allows: send less in one packet";
    PacketTypeReserved: "packet_type_reserved", Malformed MalformedPacket, Some("MQTT-2.1.3-1"),
        "packet type 0 is reserved: send a type from 1 to 15";
    AuthBeforeV5: "auth_before_v5", Malformed MalformedPacket, None,
        "AUTH exists only in MQTT 5.0: do not send it in 3.1.1";
    FlagsReserved: "flags_reserved", Malformed MalformedPacket, Some("MQTT-2.1.3-1"),
        "the lower four bits of the first byte do not belong to this packet type: send the bits that the standard lists for it";
    PublishQoSThree: "publish_qos_three", Malformed MalformedPacket, Some("MQTT-3.3.1-4"),
        "both QoS bits of PUBLISH are set: send QoS 0, 1 or 2";
    DupWithQoSZero: "dup_with_qos_zero", Malformed MalformedPacket, Some("MQTT-3.3.1-2"),
        "DUP is set on a QoS 0 message: set it only on QoS 1 and 2";
    VariableByteIntegerTooLong: "variable_byte_integer_too_long", Malformed MalformedPacket, None,
        "a variable byte integer is longer than four bytes: send at most four";
    VariableByteIntegerNotMinimal: "variable_byte_integer_not_minimal", Malformed MalformedPacket, Some("MQTT-1.5.5-1"),
        "a variable byte integer uses more bytes than it needs: send the shortest form";
    FieldPastEnd: "field_past_end", Malformed MalformedPacket, None,
        "a field runs past the end of the packet: correct its length or the remaining length";
    TrailingBytes: "trailing_bytes", Malformed MalformedPacket, None,
        "there are bytes after the last field of the packet: correct the remaining length";
    Utf8Invalid: "utf8_invalid", Malformed MalformedPacket, Some("MQTT-1.5.4-1"),
        "the string is not well-formed UTF-8: encode it as UTF-8 without surrogates";
    Utf8Null: "utf8_null", Malformed MalformedPacket, Some("MQTT-1.5.4-2"),
        "the string contains U+0000: remove it";
    PacketIdZero: "packet_id_zero", ProtocolError ProtocolError, Some("MQTT-2.2.1-3"),
        "the packet identifier is 0: use 1 to 65535";
    ReasonCodeUnknown: "reason_code_unknown", ProtocolError ProtocolError, None,
        "the standard does not list this reason code for this packet type: use one that it lists";
    PropertyBlockPastEnd: "property_block_past_end", Malformed MalformedPacket, None,
        "the property length runs past the end of the packet: correct it";
    PropertyPastBlock: "property_past_block", Malformed MalformedPacket, None,
        "a property runs past the property length: correct one of the two";
    PropertyUnknown: "property_unknown", Malformed MalformedPacket, None,
        "the property identifier is not defined: send only defined properties";
    PropertyNotAllowed: "property_not_allowed", Malformed MalformedPacket, None,
        "the property is not allowed in this packet: remove it";
    PropertyRepeated: "property_repeated", ProtocolError ProtocolError, None,
        "the property may appear at most once: send it once";
    PropertyNotBoolean: "property_not_boolean", ProtocolError ProtocolError, None,
        "the property is neither 0 nor 1: send 0 or 1";
    PayloadFormatUnknown: "payload_format_unknown", ProtocolError ProtocolError, None,
        "the payload format indicator is neither 0 nor 1: send 0 for bytes or 1 for UTF-8";
    MaximumQoSOutOfRange: "maximum_qos_out_of_range", ProtocolError ProtocolError, None,
        "the maximum QoS is neither 0 nor 1: leave the property out for QoS 2";
    ReceiveMaximumZero: "receive_maximum_zero", ProtocolError ProtocolError, None,
        "the receive maximum is 0: send 1 to 65535";
    MaximumPacketSizeZero: "maximum_packet_size_zero", ProtocolError ProtocolError, None,
        "the maximum packet size is 0: leave the property out for no limit";
    TopicAliasZero: "topic_alias_zero", ProtocolError TopicAliasInvalid, Some("MQTT-3.3.2-8"),
        "the topic alias is 0: use 1 to the receiver's topic alias maximum";
    SubscriptionIdZero: "subscription_id_zero", ProtocolError ProtocolError, None,
        "the subscription identifier is 0: use 1 to 268435455";
    ResponseTopicInvalid: "response_topic_invalid", ProtocolError TopicNameInvalid, Some("MQTT-3.3.2-14"),
        "the response topic is empty or contains a wildcard: send a topic name";
    AuthenticationDataAlone: "authentication_data_alone", ProtocolError ProtocolError, None,
        "there is authentication data without an authentication method: send both";
    AuthenticationMethodMissing: "authentication_method_missing", ProtocolError ProtocolError, None,
        "AUTH names no authentication method: send the method of the CONNECT";
    ProtocolNameUnknown: "protocol_name_unknown", ProtocolError UnsupportedProtocolVersion, Some("MQTT-3.1.2-1"),
        "the protocol name is neither MQTT nor MQIsdp: send MQTT";
    ProtocolLevelUnsupported: "protocol_level_unsupported", ProtocolError UnsupportedProtocolVersion, Some("MQTT-3.1.2-2"),
        "the protocol level is not supported: use 3 with MQIsdp, 4 or 5 with MQTT";
    ConnectFlagReserved: "connect_flag_reserved", Malformed MalformedPacket, Some("MQTT-3.1.2-3"),
        "the reserved bit of the connect flags is set: send 0";
    WillFlagsWithoutWill: "will_flags_without_will", Malformed MalformedPacket, Some("MQTT-3.1.2-11"),
        "will QoS or will retain is set without the will flag: clear them, or send a will";
    WillQoSThree: "will_qos_three", Malformed MalformedPacket, Some("MQTT-3.1.2-12"),
        "the will QoS is 3: send 0, 1 or 2";
    PasswordWithoutUserName: "password_without_user_name", Malformed MalformedPacket, None,
        "before MQTT 5.0 a password needs a user name: send both";
    WillTopicInvalid: "will_topic_invalid", ProtocolError TopicNameInvalid, Some("MQTT-4.7.0-1"),
        "the will topic is empty or contains a wildcard: send a topic name";
    ConnAckFlagsReserved: "connack_flags_reserved", Malformed MalformedPacket, Some("MQTT-3.2.2-1"),
        "a reserved bit of the connect acknowledge flags is set: send 0";
    SessionPresentOnFailure: "session_present_on_failure", ProtocolError ProtocolError, Some("MQTT-3.2.2-6"),
        "session present is set although the connection is refused: send 0";
    TopicMissing: "topic_missing", ProtocolError ProtocolError, Some("MQTT-4.7.3-1"),
        "the topic name is empty, and there is no topic alias: send one of them";
    TopicWildcard: "topic_wildcard", ProtocolError TopicNameInvalid, Some("MQTT-3.3.2-2"),
        "the topic name contains + or #: publish to one exact topic";
    TopicFilterEmpty: "topic_filter_empty", ProtocolError TopicFilterInvalid, Some("MQTT-4.7.3-1"),
        "the topic filter is empty: use at least one character";
    TopicFilterMultiLevel: "topic_filter_multi_level", ProtocolError TopicFilterInvalid, Some("MQTT-4.7.1-1"),
        "# is allowed only at the end of a topic filter: move or remove it";
    TopicFilterWildcard: "topic_filter_wildcard", ProtocolError TopicFilterInvalid, Some("MQTT-4.7.1-2"),
        "a wildcard must fill its whole level: put it between slashes";
    ShareNameInvalid: "share_name_invalid", ProtocolError TopicFilterInvalid, Some("MQTT-4.8.2-1"),
        "the share name is empty or contains + or #: write $share/NAME/FILTER";
    ShareFilterMissing: "share_filter_missing", ProtocolError TopicFilterInvalid, Some("MQTT-4.8.2-2"),
        "no topic filter follows the share name: write $share/NAME/FILTER";
    NoTopicFilters: "no_topic_filters", ProtocolError ProtocolError, Some("MQTT-3.8.3-2"),
        "the packet has no topic filter: send at least one";
    NoReasonCodes: "no_reason_codes", ProtocolError ProtocolError, Some("MQTT-3.8.4-6"),
        "the packet has no reason code: send one for each topic filter";
    SubscriptionOptionsReserved: "subscription_options_reserved", Malformed MalformedPacket, Some("MQTT-3.8.3-5"),
        "a reserved bit of the subscription options is set: send 0";
    SubscriptionQoSThree: "subscription_qos_three", ProtocolError ProtocolError, None,
        "the maximum QoS of the subscription is 3: send 0, 1 or 2";
    RetainHandlingThree: "retain_handling_three", ProtocolError ProtocolError, None,
        "the retain handling is 3: send 0, 1 or 2";
    NoLocalOnShared: "no_local_on_shared", ProtocolError ProtocolError, Some("MQTT-3.8.3-4"),
        "no local is set on a shared subscription: clear it";
}

words! {
    BUFFER_TOO_SMALL: "buffer_too_small", None,
        "the buffer is too small for the packet: give it more room";
    FIELD_TOO_LONG: "field_too_long", None,
        "the string or binary field is longer than 65,535 bytes: shorten it";
    NOT_IN_VERSION: "not_in_version", None,
        "this version of the protocol cannot express it: leave it out, or use MQTT 5.0";
    CLIENT_ID_MISSING: "client_id_missing", Some("MQTT-3.1.3-7"),
        "before MQTT 5.0 only a client with an identifier can keep a session: send an identifier, or start a clean session";
}
