// The packets in which each property is allowed (table 2-4): one bit for each packet type number, and bit 0 for a will.

export const IN_WILL = 1 << 0;
export const IN_CONNECT = 1 << 1;
export const IN_CONNACK = 1 << 2;
export const IN_PUBLISH = 1 << 3;
export const IN_SUBSCRIBE = 1 << 8;
export const IN_DISCONNECT = 1 << 14;
export const IN_AUTH = 1 << 15;

const MESSAGE = IN_WILL | IN_PUBLISH;
const OPENING = IN_CONNECT | IN_CONNACK;
/** CONNACK, the four acknowledgements, SUBACK, UNSUBACK, DISCONNECT and AUTH. */
const ANSWERS = 0xcaf4;
const ALL = 0xcfff;

/** By identifier; 0 for undefined properties. */
export const PROPERTY_PLACES: readonly number[] = [
  0, MESSAGE, MESSAGE, MESSAGE, 0, 0, 0, 0,
  MESSAGE, MESSAGE, 0, IN_PUBLISH | IN_SUBSCRIBE, 0, 0, 0, 0,
  0, OPENING | IN_DISCONNECT, IN_CONNACK, IN_CONNACK, 0, OPENING | IN_AUTH, OPENING | IN_AUTH, IN_CONNECT,
  IN_WILL, IN_CONNECT, IN_CONNACK, 0, IN_CONNACK | IN_DISCONNECT, 0, 0, ANSWERS,
  0, OPENING, OPENING, IN_PUBLISH, IN_CONNACK, IN_CONNACK, ALL, OPENING,
  IN_CONNACK, IN_CONNACK, IN_CONNACK,
];
