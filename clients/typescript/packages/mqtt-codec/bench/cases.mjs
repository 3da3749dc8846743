// The packets of the comparison. Every library decodes the same bytes and encodes the same bytes.

const bytes = (length, seed) => Uint8Array.from({ length }, (_, at) => (at * 31 + seed) & 255);

const ackProperties = {
  reasonString: "no space left on the device",
  userProperties: [["region", "eu-north"]],
};

/** Name and packet, MQTT 5.0. */
export const CASES = [
  [
    "connect with properties",
    {
      type: "connect",
      clientId: "sensor-4711",
      keepAliveS: 60,
      userName: "greenhouse",
      password: bytes(12, 5),
      properties: {
        sessionExpiryInterval: 1234,
        receiveMaximum: 432,
        maximumPacketSize: 100_000,
        topicAliasMaximum: 456,
        requestResponseInformation: true,
        requestProblemInformation: true,
        userProperties: [["region", "eu-north"]],
        authenticationMethod: "SCRAM-SHA-256",
        authenticationData: bytes(4, 1),
      },
      will: {
        topic: "greenhouse/4711/state",
        payload: bytes(7, 3),
        qos: 1,
        retain: true,
        properties: {
          willDelayInterval: 1234,
          payloadFormatIndicator: 0,
          messageExpiryInterval: 4321,
          contentType: "text/plain",
          responseTopic: "answers/4711",
          correlationData: bytes(4, 9),
          userProperties: [["region", "eu-north"]],
        },
      },
    },
  ],
  [
    "connack with properties",
    {
      type: "connack",
      reason: 0,
      properties: {
        sessionExpiryInterval: 1234,
        receiveMaximum: 432,
        maximumQoS: 1,
        retainAvailable: true,
        maximumPacketSize: 100_000,
        assignedClientIdentifier: "auto-81f2",
        topicAliasMaximum: 456,
        reasonString: "welcome",
        userProperties: [["region", "eu-north"]],
        wildcardSubscriptionAvailable: true,
        subscriptionIdentifierAvailable: true,
        sharedSubscriptionAvailable: false,
        serverKeepAlive: 1234,
        responseInformation: "answers",
        serverReference: "other.example",
        authenticationMethod: "SCRAM-SHA-256",
        authenticationData: bytes(4, 1),
      },
    },
  ],
  [
    "auth",
    {
      type: "auth",
      reason: 0x18,
      properties: {
        authenticationMethod: "SCRAM-SHA-256",
        authenticationData: bytes(4, 1),
        reasonString: "one more step",
        userProperties: [["region", "eu-north"]],
      },
    },
  ],
  [
    "publish with user properties",
    {
      type: "publish",
      topic: "greenhouse/4711/temperature",
      qos: 2,
      dup: true,
      retain: true,
      packetId: 10,
      payload: bytes(4, 0),
      properties: {
        payloadFormatIndicator: 1,
        messageExpiryInterval: 4321,
        topicAlias: 100,
        responseTopic: "answers/4711",
        correlationData: bytes(4, 9),
        userProperties: [
          ["region", "eu-north"],
          ["unit", "celsius"],
          ["unit", "kelvin"],
        ],
        subscriptionIdentifiers: [120],
        contentType: "text/plain",
      },
    },
  ],
  [
    "publish with repeating properties",
    {
      type: "publish",
      topic: "greenhouse/4711/temperature",
      qos: 1,
      packetId: 10,
      payload: bytes(4, 0),
      properties: {
        messageExpiryInterval: 4321,
        topicAlias: 100,
        correlationData: bytes(4, 9),
        userProperties: [["region", "eu-north"]],
        subscriptionIdentifiers: [1, 2, 120, 300],
        contentType: "text/plain",
      },
    },
  ],
  ["publish 2 KB", { type: "publish", topic: "greenhouse/4711/image", payload: bytes(2048, 7) }],
  ["puback simple", { type: "puback", packetId: 2 }],
  ["puback with properties", { type: "puback", packetId: 2, reason: 0x10, properties: ackProperties }],
  ["pubrec", { type: "pubrec", packetId: 3, reason: 0x10, properties: ackProperties }],
  ["pubrel", { type: "pubrel", packetId: 4, reason: 0x92, properties: ackProperties }],
  ["pubcomp", { type: "pubcomp", packetId: 5, reason: 0x92, properties: ackProperties }],
  [
    "subscribe",
    {
      type: "subscribe",
      packetId: 6,
      properties: { subscriptionIdentifier: 145, userProperties: [["region", "eu-north"]] },
      requests: [{ filter: "greenhouse/+", qos: 1, noLocal: true, retainAsPublished: true, retainHandling: 1 }],
    },
  ],
  [
    "subscribe to three topics",
    {
      type: "subscribe",
      packetId: 6,
      properties: { subscriptionIdentifier: 145, userProperties: [["region", "eu-north"]] },
      requests: [
        { filter: "greenhouse/+", qos: 0, noLocal: true, retainAsPublished: true, retainHandling: 1 },
        { filter: "alarms/#", qos: 1 },
        { filter: "answers/4711", qos: 2 },
      ],
    },
  ],
  [
    "suback",
    { type: "suback", packetId: 6, reasons: [0, 1, 2, 0x80], properties: ackProperties },
  ],
  [
    "unsubscribe",
    {
      type: "unsubscribe",
      packetId: 7,
      filters: ["greenhouse/+", "alarms/#"],
      properties: { userProperties: [["region", "eu-north"]] },
    },
  ],
  ["unsuback", { type: "unsuback", packetId: 8, reasons: [0, 0x11], properties: ackProperties }],
  ["pingreq", { type: "pingreq" }],
  ["pingresp", { type: "pingresp" }],
  [
    "disconnect",
    {
      type: "disconnect",
      reason: 0x9d,
      properties: {
        sessionExpiryInterval: 145,
        reasonString: "moved for good",
        userProperties: [["region", "eu-north"]],
        serverReference: "other.example",
      },
    },
  ],
];

/** About 1 MB of PUBLISH packets of 34 bytes on average, on `topics` topics. */
export function stream(encode, version, topics) {
  const packets = [];
  let length = 0;
  let state = 12345;
  const random = () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 32;
  while (length < 1 << 20) {
    const topic = `site/${(random() * topics) | 0}/temperature`;
    const packet = encode({ type: "publish", topic, payload: bytes(4 + random() * 12, length & 255) }, version);
    packets.push(packet);
    length += packet.length;
  }
  return { bytes: new Uint8Array(Buffer.concat(packets)), count: packets.length };
}

/** Splits at random into pieces of that size on average, or not at all. */
export function chunks(bytes, average) {
  if (average >= bytes.length) return [bytes];
  const pieces = [];
  let state = 99;
  for (let at = 0; at < bytes.length; ) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    const size = 1 + Math.floor((state / 2 ** 32) * (2 * average - 1));
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}
