// The shapes of `mqtt-packet` that its users rely on, as loosely typed as it takes them.

/** Names with one value, or with several in order. */
export type UserPropertiesMap = Record<string, string | string[]>;

/** Properties by the names of `mqtt-packet`. */
export type PropertiesMap = Record<string, unknown> & { userProperties?: UserPropertiesMap };

/** A packet with a `cmd` and the fields that belong to it. */
export interface AnyPacket {
  cmd: string;
  messageId?: number | undefined;
  /** Decoded packets: the remaining length in bytes. */
  length?: number;
  properties?: PropertiesMap | undefined;
  [field: string]: unknown;
}

/** What parsers and generators are told about the connection. */
export interface Options {
  /** 3, 4 or 5; 4 if it is left out. */
  protocolVersion?: number | undefined;
  /** `maximumPacketSize`: reason strings and user properties are left out of packets that would be larger. */
  properties?: { maximumPacketSize?: number | undefined } | undefined;
  [option: string]: unknown;
}

/** What packets are written to: a Node.js stream or anything like it. */
export interface WritableLike {
  write(bytes: Uint8Array): unknown;
  destroy(error: Error): unknown;
  cork?: (() => unknown) | undefined;
  uncork?: (() => unknown) | undefined;
}
