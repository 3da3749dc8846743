// The packets in which each reason code is allowed (section 2.4): one bit for each packet type.

const CONNACK = 1 << 2;
const PUBACK = 1 << 4;
const PUBREC = 1 << 5;
const PUBREL = 1 << 6;
const PUBCOMP = 1 << 7;
const SUBACK = 1 << 9;
const UNSUBACK = 1 << 11;
const DISCONNECT = 1 << 14;
const AUTH = 1 << 15;

const RECEIVED = PUBACK | PUBREC;
const RELEASED = PUBREL | PUBCOMP;
const SUBSCRIBED = SUBACK | UNSUBACK;
const ENDS = CONNACK | DISCONNECT;

const ALL_BUT_RELEASED = ENDS | RECEIVED | SUBSCRIBED;

/** The reason codes from 0x80 on. */
const FAILURES: readonly number[] = [
  ALL_BUT_RELEASED, ENDS, ENDS, ALL_BUT_RELEASED, CONNACK, CONNACK, CONNACK, ALL_BUT_RELEASED, // 0x80
  CONNACK, ENDS, CONNACK, DISCONNECT, CONNACK, DISCONNECT, DISCONNECT, SUBSCRIBED | DISCONNECT, // 0x88
  ENDS | RECEIVED, RECEIVED | SUBSCRIBED, RELEASED, DISCONNECT, DISCONNECT, ENDS, DISCONNECT, ENDS | RECEIVED | SUBACK, // 0x90
  DISCONNECT, ENDS | RECEIVED, ENDS, ENDS, ENDS, ENDS, SUBACK | DISCONNECT, ENDS, // 0x98
  DISCONNECT, SUBACK | DISCONNECT, SUBACK | DISCONNECT, // 0xA0
];

/** The packet types in which each reason code is allowed, one bit for each. */
const REASON_PACKETS: Uint16Array = /* @__PURE__ */ (() => {
  const table = new Uint16Array(256);
  table[0x00] = ALL_BUT_RELEASED | RELEASED | AUTH;
  table[0x01] = table[0x02] = SUBACK;
  table[0x04] = DISCONNECT;
  table[0x10] = RECEIVED;
  table[0x11] = UNSUBACK;
  table[0x18] = table[0x19] = AUTH;
  table.set(FAILURES, 0x80);
  return table;
})();

/** Whether the reason code is allowed in packets of that type number. */
export function mayCarry(packetNumber: number, reason: number): boolean {
  return ((REASON_PACKETS[reason]! >> packetNumber) & 1) !== 0;
}

/** The MQTT 5.0 reason codes of CONNACK, in the order of the 3.1.1 return codes 0 to 5. */
export const CONNACK_V3_REASONS: readonly number[] = [0, 0x84, 0x85, 0x88, 0x86, 0x87];

/** Reason codes by the names of the standard (section 2.4). */
export const ReasonCode = {
  Success: 0x00,
  GrantedQoS1: 0x01,
  GrantedQoS2: 0x02,
  DisconnectWithWillMessage: 0x04,
  NoMatchingSubscribers: 0x10,
  NoSubscriptionExisted: 0x11,
  ContinueAuthentication: 0x18,
  ReAuthenticate: 0x19,
  UnspecifiedError: 0x80,
  MalformedPacket: 0x81,
  ProtocolError: 0x82,
  ImplementationSpecificError: 0x83,
  UnsupportedProtocolVersion: 0x84,
  ClientIdentifierNotValid: 0x85,
  BadUserNameOrPassword: 0x86,
  NotAuthorized: 0x87,
  ServerUnavailable: 0x88,
  ServerBusy: 0x89,
  Banned: 0x8a,
  ServerShuttingDown: 0x8b,
  BadAuthenticationMethod: 0x8c,
  KeepAliveTimeout: 0x8d,
  SessionTakenOver: 0x8e,
  TopicFilterInvalid: 0x8f,
  TopicNameInvalid: 0x90,
  PacketIdentifierInUse: 0x91,
  PacketIdentifierNotFound: 0x92,
  ReceiveMaximumExceeded: 0x93,
  TopicAliasInvalid: 0x94,
  PacketTooLarge: 0x95,
  MessageRateTooHigh: 0x96,
  QuotaExceeded: 0x97,
  AdministrativeAction: 0x98,
  PayloadFormatInvalid: 0x99,
  RetainNotSupported: 0x9a,
  QoSNotSupported: 0x9b,
  UseAnotherServer: 0x9c,
  ServerMoved: 0x9d,
  SharedSubscriptionsNotSupported: 0x9e,
  ConnectionRateExceeded: 0x9f,
  MaximumConnectTime: 0xa0,
  SubscriptionIdentifiersNotSupported: 0xa1,
  WildcardSubscriptionsNotSupported: 0xa2,
} as const;

/** Any reason code of the standard. */
export type ReasonCode = (typeof ReasonCode)[keyof typeof ReasonCode];
