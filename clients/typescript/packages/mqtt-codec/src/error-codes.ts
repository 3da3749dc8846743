// Written by `make errors` from spec/errors/errors.toml.

/** Each check that decoding makes, with what to do about it, and the reason code to answer with. */
export interface DecodeErrorReasons {
  /** The packet is larger than its receiver accepts, or than MQTT allows: send less in one packet. */
  packet_too_large: 0x95;
  /** Packet type 0 is reserved: send a type from 1 to 15. */
  packet_type_reserved: 0x81;
  /** Servers do not send packets of this type: check what is at the other end. */
  packet_type_unexpected: 0x82;
  /** AUTH exists only in MQTT 5.0: do not send it in 3.1.1. */
  auth_before_v5: 0x81;
  /** The lower four bits of the first byte do not belong to this packet type: send the bits that the standard lists for it. */
  flags_reserved: 0x81;
  /** Both QoS bits of PUBLISH are set: send QoS 0, 1 or 2. */
  publish_qos_three: 0x81;
  /** DUP is set on a QoS 0 message: set it only on QoS 1 and 2. */
  dup_with_qos_zero: 0x81;
  /** A variable byte integer is longer than four bytes: send at most four. */
  variable_byte_integer_too_long: 0x81;
  /** A variable byte integer uses more bytes than it needs: send the shortest form. */
  variable_byte_integer_not_minimal: 0x81;
  /** A field runs past the end of the packet: correct its length or the remaining length. */
  field_past_end: 0x81;
  /** There are bytes after the last field of the packet: correct the remaining length. */
  trailing_bytes: 0x81;
  /** The string is not well-formed UTF-8: encode it as UTF-8 without surrogates. */
  utf8_invalid: 0x81;
  /** The string contains U+0000: remove it. */
  utf8_null: 0x81;
  /** The packet identifier is 0: use 1 to 65535. */
  packet_id_zero: 0x82;
  /** The standard does not list this reason code for this packet type: use one that it lists. */
  reason_code_unknown: 0x82;
  /** The property length runs past the end of the packet: correct it. */
  property_block_past_end: 0x81;
  /** A property runs past the property length: correct one of the two. */
  property_past_block: 0x81;
  /** The property identifier is not defined: send only defined properties. */
  property_unknown: 0x81;
  /** The property is not allowed in this packet: remove it. */
  property_not_allowed: 0x81;
  /** The property may appear at most once: send it once. */
  property_repeated: 0x82;
  /** The property is neither 0 nor 1: send 0 or 1. */
  property_not_boolean: 0x82;
  /** The payload format indicator is neither 0 nor 1: send 0 for bytes or 1 for UTF-8. */
  payload_format_unknown: 0x82;
  /** The maximum QoS is neither 0 nor 1: leave the property out for QoS 2. */
  maximum_qos_out_of_range: 0x82;
  /** The receive maximum is 0: send 1 to 65535. */
  receive_maximum_zero: 0x82;
  /** The maximum packet size is 0: leave the property out for no limit. */
  maximum_packet_size_zero: 0x82;
  /** The topic alias is 0: use 1 to the receiver's topic alias maximum. */
  topic_alias_zero: 0x94;
  /** The subscription identifier is 0: use 1 to 268435455. */
  subscription_id_zero: 0x82;
  /** The response topic is empty or contains a wildcard: send a topic name. */
  response_topic_invalid: 0x90;
  /** There is authentication data without an authentication method: send both. */
  authentication_data_alone: 0x82;
  /** AUTH names no authentication method: send the method of the CONNECT. */
  authentication_method_missing: 0x82;
  /** The protocol name is neither MQTT nor MQIsdp: send MQTT. */
  protocol_name_unknown: 0x84;
  /** The protocol level is not supported: use 3 with MQIsdp, 4 or 5 with MQTT. */
  protocol_level_unsupported: 0x84;
  /** The reserved bit of the connect flags is set: send 0. */
  connect_flag_reserved: 0x81;
  /** Will QoS or will retain is set without the will flag: clear them, or send a will. */
  will_flags_without_will: 0x81;
  /** The will QoS is 3: send 0, 1 or 2. */
  will_qos_three: 0x81;
  /** Before MQTT 5.0 a password needs a user name: send both. */
  password_without_user_name: 0x81;
  /** The will topic is empty or contains a wildcard: send a topic name. */
  will_topic_invalid: 0x90;
  /** A reserved bit of the connect acknowledge flags is set: send 0. */
  connack_flags_reserved: 0x81;
  /** Session present is set although the connection is refused: send 0. */
  session_present_on_failure: 0x82;
  /** The topic name is empty, and there is no topic alias: send one of them. */
  topic_missing: 0x82;
  /** The topic name contains + or #: publish to one exact topic. */
  topic_wildcard: 0x90;
  /** The topic filter is empty: use at least one character. */
  topic_filter_empty: 0x8f;
  /** # is allowed only at the end of a topic filter: move or remove it. */
  topic_filter_multi_level: 0x8f;
  /** A wildcard must fill its whole level: put it between slashes. */
  topic_filter_wildcard: 0x8f;
  /** The share name is empty or contains + or #: write $share/NAME/FILTER. */
  share_name_invalid: 0x8f;
  /** No topic filter follows the share name: write $share/NAME/FILTER. */
  share_filter_missing: 0x8f;
  /** The packet has no topic filter: send at least one. */
  no_topic_filters: 0x82;
  /** The packet has no reason code: send one for each topic filter. */
  no_reason_codes: 0x82;
  /** A reserved bit of the subscription options is set: send 0. */
  subscription_options_reserved: 0x81;
  /** The maximum QoS of the subscription is 3: send 0, 1 or 2. */
  subscription_qos_three: 0x82;
  /** The retain handling is 3: send 0, 1 or 2. */
  retain_handling_three: 0x82;
  /** No local is set on a shared subscription: clear it. */
  no_local_on_shared: 0x82;
}

/** A stable name for each check that decoding makes. */
export type DecodeErrorCode = keyof DecodeErrorReasons;

/** A stable name for each reason not to encode. The codecs in all languages share them; not each of them gives each. */
export type EncodeErrorCode =
  /** The packet is larger than its receiver accepts, or than MQTT allows: send less in one packet. */
  | "packet_too_large"
  /** AUTH exists only in MQTT 5.0: do not send it in 3.1.1. */
  | "auth_before_v5"
  /** DUP is set on a QoS 0 message: set it only on QoS 1 and 2. */
  | "dup_with_qos_zero"
  /** The string is not well-formed UTF-8: encode it as UTF-8 without surrogates. */
  | "utf8_invalid"
  /** The string contains U+0000: remove it. */
  | "utf8_null"
  /** The packet identifier is 0: use 1 to 65535. */
  | "packet_id_zero"
  /** The standard does not list this reason code for this packet type: use one that it lists. */
  | "reason_code_unknown"
  /** The property is not allowed in this packet: remove it. */
  | "property_not_allowed"
  /** The property may appear at most once: send it once. */
  | "property_repeated"
  /** The property is neither 0 nor 1: send 0 or 1. */
  | "property_not_boolean"
  /** The payload format indicator is neither 0 nor 1: send 0 for bytes or 1 for UTF-8. */
  | "payload_format_unknown"
  /** The maximum QoS is neither 0 nor 1: leave the property out for QoS 2. */
  | "maximum_qos_out_of_range"
  /** The receive maximum is 0: send 1 to 65535. */
  | "receive_maximum_zero"
  /** The maximum packet size is 0: leave the property out for no limit. */
  | "maximum_packet_size_zero"
  /** The topic alias is 0: use 1 to the receiver's topic alias maximum. */
  | "topic_alias_zero"
  /** The subscription identifier is 0: use 1 to 268435455. */
  | "subscription_id_zero"
  /** The response topic is empty or contains a wildcard: send a topic name. */
  | "response_topic_invalid"
  /** There is authentication data without an authentication method: send both. */
  | "authentication_data_alone"
  /** AUTH names no authentication method: send the method of the CONNECT. */
  | "authentication_method_missing"
  /** The will QoS is 3: send 0, 1 or 2. */
  | "will_qos_three"
  /** Before MQTT 5.0 a password needs a user name: send both. */
  | "password_without_user_name"
  /** The will topic is empty or contains a wildcard: send a topic name. */
  | "will_topic_invalid"
  /** Session present is set although the connection is refused: send 0. */
  | "session_present_on_failure"
  /** The topic name is empty, and there is no topic alias: send one of them. */
  | "topic_missing"
  /** The topic name contains + or #: publish to one exact topic. */
  | "topic_wildcard"
  /** The topic filter is empty: use at least one character. */
  | "topic_filter_empty"
  /** # is allowed only at the end of a topic filter: move or remove it. */
  | "topic_filter_multi_level"
  /** A wildcard must fill its whole level: put it between slashes. */
  | "topic_filter_wildcard"
  /** The share name is empty or contains + or #: write $share/NAME/FILTER. */
  | "share_name_invalid"
  /** No topic filter follows the share name: write $share/NAME/FILTER. */
  | "share_filter_missing"
  /** The packet has no topic filter: send at least one. */
  | "no_topic_filters"
  /** The packet has no reason code: send one for each topic filter. */
  | "no_reason_codes"
  /** The maximum QoS of the subscription is 3: send 0, 1 or 2. */
  | "subscription_qos_three"
  /** The retain handling is 3: send 0, 1 or 2. */
  | "retain_handling_three"
  /** No local is set on a shared subscription: clear it. */
  | "no_local_on_shared"
  /** The buffer is too small for the packet: give it more room. */
  | "buffer_too_small"
  /** The string or binary field is longer than 65,535 bytes: shorten it. */
  | "field_too_long"
  /** This version of the protocol cannot express it: leave it out, or use MQTT 5.0. */
  | "not_in_version"
  /** The QoS is not 0, 1 or 2: use one of them. */
  | "qos_unknown"
  /** Before MQTT 5.0 only a client with an identifier can keep a session: send an identifier, or start a clean session. */
  | "client_id_missing"
  /** It is not a control packet: pass an object with one of the types of this package. */
  | "not_a_packet"
  /** The value has the wrong type: see the types of this package. */
  | "wrong_type"
  /** The value is out of the range that the standard allows: see the documentation of the field. */
  | "out_of_range";
