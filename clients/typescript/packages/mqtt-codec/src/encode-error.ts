/** A stable name for each reason not to encode. */
export type EncodeErrorCode =
  /** It is not a control packet: give an object with one of the types. */
  | "not_a_packet"
  /** The buffer is too small: give as many bytes as encodedLength says. */
  | "buffer_too_small"
  /** The remaining length would be more than 268435455 bytes: send less. */
  | "packet_too_large"
  /** At most 65535 bytes fit: shorten it. */
  | "field_too_long"
  /** It contains U+0000: remove it. */
  | "utf8_null"
  /** It contains half of a surrogate pair: give well-formed text. */
  | "utf8_invalid"
  /** It has the wrong type: see the types of this package. */
  | "wrong_type"
  /** It is not in the range of the standard: see its documentation. */
  | "out_of_range"
  /** The packet may not carry this reason code: use a listed one. */
  | "reason_code_unknown"
  /** The property may not stand in this packet: remove it. */
  | "property_not_allowed"
  /** The authentication method is missing: add it. */
  | "authentication_method_missing"
  /** There is neither a topic nor a topic alias: give one of them. */
  | "topic_missing"
  /** A topic name is not empty and contains neither + nor #: give one exact topic. */
  | "topic_wildcard"
  /** It is not a topic filter: see sections 4.7 and 4.8.2. */
  | "topic_filter_invalid"
  /** This version of the protocol cannot express it: leave it out or speak MQTT 5.0. */
  | "not_in_version"
  /** There is no topic filter: give at least one. */
  | "no_topic_filters"
  /** There is no reason code: give one for each topic filter. */
  | "no_reason_codes"
  /** No local is set on a shared subscription: clear it. */
  | "no_local_on_shared"
  /** Session present is set although the connection is refused: clear it. */
  | "session_present_on_failure"
  /** Before MQTT 5.0 a password needs a user name: give both. */
  | "password_without_user_name";

/** Why a packet cannot be written. Never holds a payload or a password. */
export class MqttEncodeError extends Error {
  override readonly name = "MqttEncodeError";

  constructor(
    /** What is wrong. */
    readonly code: EncodeErrorCode,
    /** The field or property, such as `will.topic`. */
    readonly field: string,
  ) {
    super(`${field}: ${code.replaceAll("_", " ")}`);
  }
}
