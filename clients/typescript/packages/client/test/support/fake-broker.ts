// A scripted broker with connections in memory. Bytes are delivered in microtasks, in pieces of any size.

import { encode, MqttDecoder, type Connack, type Packet, type PacketInit } from "@tautwire/mqtt-codec";
import type { TransportEvents, TransportFactory } from "@tautwire/client";
import { within } from "./waiting.js";

type PacketOf<T extends Packet["type"]> = Extract<Packet, { type: T }>;

export class FakeBroker {
  readonly connections: FakeConnection[] = [];
  /** Called for every new connection. Returns whether it opens. */
  onConnection: (connection: FakeConnection) => boolean = () => true;
  private readonly waiting: ((connection: FakeConnection) => void)[] = [];
  private taken = 0;

  readonly transport: TransportFactory = (_url, events) => {
    const connection = new FakeConnection(events);
    this.connections.push(connection);
    queueMicrotask(() => {
      if (this.onConnection(connection)) connection.open();
      else connection.fail(new Error("nobody is there"));
      const waiting = this.waiting.shift();
      if (waiting !== undefined) {
        this.taken++;
        waiting(connection);
      }
    });
    return connection;
  };

  /** Connections that neither side has closed. */
  get open(): number {
    return this.connections.filter(({ isClosed }) => !isClosed).length;
  }

  /** Resolves with the next connection that a client opens. */
  next(): Promise<FakeConnection> {
    // Skip connections that never opened.
    while (this.connections[this.taken]?.isOpen === false && this.connections[this.taken]?.isClosed === true) this.taken++;
    const waiting = this.connections[this.taken];
    if (waiting?.isOpen === true) {
      this.taken++;
      return Promise.resolve(waiting);
    }
    return within(new Promise((resolve) => this.waiting.push(resolve)), "a connection");
  }

  /** Resolves with the next connection, after its CONNECT was answered. */
  async accept(init: Partial<Connack> = {}): Promise<FakeConnection> {
    const connection = await this.next();
    await connection.accept(init);
    return connection;
  }
}

export class FakeConnection {
  isOpen = false;
  isClosed = false;
  /** Whether the client has closed it. */
  isEnded = false;
  isPaused = false;
  bufferedBytes = 0;
  /** Receives each packet, instead of the queue for {@link expect}. */
  onPacket: ((packet: Packet) => void) | null = null;
  /** The size of each piece towards the client. */
  pieceBytes = Infinity;
  readonly received: Packet[] = [];
  private readonly waiting: ((packet: Packet) => void)[] = [];
  private readonly ends: (() => void)[] = [];
  private readonly decoder = new MqttDecoder();
  private held: Uint8Array[] = [];

  constructor(readonly events: TransportEvents) {}

  open(): void {
    this.isOpen = true;
    this.events.onOpen();
  }

  fail(error?: unknown): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.events.onClose(error);
  }

  // The interface for the client.

  send(bytes: Uint8Array): boolean {
    const copy = bytes.slice();
    queueMicrotask(() => {
      if (this.isClosed) return;
      this.decoder.push(copy);
      for (const packet of this.decoder) {
        if (this.onPacket !== null) this.onPacket(packet);
        else if (this.waiting.length > 0) this.waiting.shift()!(packet);
        else this.received.push(packet);
      }
    });
    return true;
  }

  end(): void {
    this.isEnded = true;
    queueMicrotask(() => {
      this.fail();
      for (const settle of this.ends.splice(0)) settle();
    });
  }

  destroy(): void {
    this.isEnded = true;
    this.isClosed = true;
    for (const settle of this.ends.splice(0)) settle();
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    for (const bytes of this.held.splice(0)) this.deliver(bytes);
  }

  // The interface for tests.

  /** Sends packets to the client. */
  give(...packets: PacketInit[]): void {
    for (const packet of packets) this.giveBytes(encode(packet, this.decoder.protocolVersion));
  }

  giveBytes(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += this.pieceBytes) {
      const piece = bytes.slice(at, at + this.pieceBytes);
      queueMicrotask(() => {
        this.deliver(piece);
      });
    }
  }

  private deliver(bytes: Uint8Array): void {
    if (this.isClosed) return;
    if (this.isPaused) this.held.push(bytes);
    else this.events.onData(bytes);
  }

  /** Resolves with the next packet of the client, which must be of this type. */
  async expect<T extends Packet["type"]>(type: T): Promise<PacketOf<T>> {
    const packet =
      this.received.shift() ?? (await within(new Promise<Packet>((resolve) => this.waiting.push(resolve)), type));
    if (packet.type !== type) throw new Error(`${packet.type} came in place of ${type}`);
    return packet as PacketOf<T>;
  }

  async accept(init: Partial<Connack> = {}): Promise<PacketOf<"connect">> {
    const connect = await this.expect("connect");
    this.give({ type: "connack", sessionPresent: false, reason: 0, ...init });
    return connect;
  }

  /** Receives a SUBSCRIBE and grants it. */
  async grant(): Promise<PacketOf<"subscribe">> {
    const subscribe = await this.expect("subscribe");
    this.give({ type: "suback", packetId: subscribe.packetId, reasons: subscribe.requests.map(({ qos }) => qos) });
    return subscribe;
  }

  /** Verifies that the client has sent nothing else: its response to this must be the next packet. */
  async fence(): Promise<void> {
    this.give({ type: "pubrel", packetId: 65_535 });
    const answer = await this.expect("pubcomp");
    if (answer.packetId !== 65_535) throw new Error("another PUBCOMP came first");
  }

  /** Drops the connection, like a network failure. */
  drop(): void {
    this.fail();
  }

  /** Resolves when the client has closed the connection. */
  ended(): Promise<void> {
    if (this.isEnded) return Promise.resolve();
    return within(new Promise((resolve) => this.ends.push(resolve)), "the end of the connection");
  }
}

/** Makes the connection behave like a correct server that loses nothing. */
export function obedient(connection: FakeConnection, sessionPresent = false): void {
  connection.onPacket = (packet) => {
    answer(connection, packet, sessionPresent);
  };
}

export function answer(connection: FakeConnection, packet: Packet, sessionPresent = false): void {
  switch (packet.type) {
    case "connect":
      connection.give({ type: "connack", reason: 0, sessionPresent: sessionPresent && !packet.cleanStart });
      break;
    case "subscribe":
      connection.give({ type: "suback", packetId: packet.packetId, reasons: packet.requests.map(({ qos }) => qos) });
      break;
    case "unsubscribe": {
      const reasons = packet.filters.map(() => 0);
      connection.give({ type: "unsuback", packetId: packet.packetId, reasons });
      break;
    }
    case "publish":
      if (packet.qos === 1) connection.give({ type: "puback", packetId: packet.packetId });
      if (packet.qos === 2) connection.give({ type: "pubrec", packetId: packet.packetId });
      break;
    case "pubrec":
      connection.give({ type: "pubrel", packetId: packet.packetId });
      break;
    case "pubrel":
      connection.give({ type: "pubcomp", packetId: packet.packetId });
      break;
    case "pingreq":
      connection.give({ type: "pingresp" });
      break;
    default:
  }
}
