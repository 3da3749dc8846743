import { createHash, randomBytes, randomFillSync } from "node:crypto";
import { MqttError } from "../errors.js";
import { applyMask, FrameError, frameHeader, FrameReader, OP_BINARY, OP_CLOSE, OP_PING, OP_PONG } from "./frames.js";
import { isSecure, openSocket, overSocket } from "./tcp.js";
import type { Transport, TransportEvents, TransportOptions } from "./transport.js";

/** The maximum size of the response to the handshake request. */
const HEAD_MAX_BYTES = 16 * 1024;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** MQTT over WebSocket (section 6) on a socket. It can pause and send headers, and works without a global `WebSocket`. */
export function nodeWebSocket(url: URL, events: TransportEvents, options: TransportOptions): Transport {
  const key = randomBytes(16).toString("base64");
  const opening = request(url, key, options.headers ?? {});
  const socket = openSocket(url, options);
  let failure: unknown;
  const transport = overSocket(socket, {
    onDrain: () => {
      events.onDrain();
    },
    onClose: (error) => {
      events.onClose(failure ?? error);
    },
  });
  const fail = (error: unknown) => {
    failure ??= error;
    socket.destroy();
  };
  const sendFrame = (opcode: number, payload: Uint8Array): boolean => {
    const mask = randomMask();
    applyMask(payload, mask);
    socket.cork();
    socket.write(frameHeader(opcode, payload.length, mask));
    socket.write(payload);
    socket.uncork();
    return socket.writableLength === 0;
  };

  const reader = new FrameReader({
    onData: (piece) => {
      events.onData(piece);
    },
    onControl: (opcode, payload) => {
      if (opcode === OP_PING) sendFrame(OP_PONG, payload.slice());
      if (opcode !== OP_CLOSE) return;
      const code = payload.length < 2 ? 1005 : (payload[0]! << 8) | payload[1]!;
      if (code !== 1000 && code !== 1005) failure ??= new Error(`WebSocket closed with code ${code}`);
      if (socket.writable) {
        sendFrame(OP_CLOSE, payload.slice(0, 2));
        socket.end();
      }
    },
  });
  const read = (chunk: Uint8Array) => {
    try {
      reader.push(chunk);
    } catch (error) {
      if (error instanceof FrameError) sendFrame(OP_CLOSE, closePayload(error.closeCode));
      fail(error);
    }
  };

  let head = Buffer.alloc(0);
  const readHead = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) {
      if (head.length > HEAD_MAX_BYTES) fail(refused("the header of the response is too long"));
      return;
    }
    const error = checkResponse(head.toString("latin1", 0, end), key);
    if (error !== null) {
      fail(error);
      return;
    }
    socket.off("data", readHead);
    socket.on("data", read);
    const rest = head.subarray(end + 4);
    events.onOpen();
    if (rest.length > 0) read(rest);
  };
  socket.on("data", readHead);
  socket.on(isSecure(url) ? "secureConnect" : "connect", () => {
    socket.write(opening, "latin1");
  });

  return {
    send: (bytes) => sendFrame(OP_BINARY, bytes),
    get bufferedBytes() {
      return transport.bufferedBytes;
    },
    end() {
      sendFrame(OP_CLOSE, closePayload(1000));
      socket.end();
    },
    destroy: () => {
      transport.destroy();
    },
    pause: () => {
      socket.pause();
    },
    resume: () => {
      socket.resume();
    },
    ref: () => {
      socket.ref();
    },
    unref: () => {
      socket.unref();
    },
  };
}

/**
 * Encodes the handshake request (RFC 6455, section 4.1).
 *
 * @throws {MqttError} `invalid_argument`: a header is invalid. The error omits its value, which may be a secret.
 */
function request(url: URL, key: string, headers: Readonly<Record<string, string>>): string {
  const lines = [
    `GET ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Key: ${key}`,
    "Sec-WebSocket-Version: 13",
    // [MQTT-6.0.0-3]
    "Sec-WebSocket-Protocol: mqtt",
  ];
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[\w-]+$/.test(name) || /[\r\n\0]/.test(value)) {
      throw new MqttError("invalid_argument", `invalid HTTP header ${JSON.stringify(name)}`);
    }
    lines.push(`${name}: ${value}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** Checks the response of the server. Returns an error, or null if it is valid. */
function checkResponse(head: string, key: string): MqttError | null {
  const [status = "", ...lines] = head.split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon > 0) headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const code = Number(/^HTTP\/1\.[01] (\d{3})\b/.exec(status)?.[1] ?? 0);
  if (code !== 101) {
    return new MqttError("websocket_refused", status.slice(0, 80), { status: code || undefined });
  }
  const accept = createHash("sha1").update(key + GUID).digest("base64");
  if (headers.get("sec-websocket-accept") !== accept) return refused("Sec-WebSocket-Accept does not match the request");
  if (headers.get("sec-websocket-protocol") !== "mqtt") return refused("the server does not support the subprotocol mqtt");
  return null;
}

function refused(detail: string): MqttError {
  return new MqttError("websocket_refused", detail);
}

function closePayload(code: number): Uint8Array {
  return Uint8Array.of(code >> 8, code);
}

// Not a Buffer, because its `slice` does not copy.
const pool = new Uint8Array(4096);
let poolAt = pool.length;

/** Returns four unpredictable bytes (RFC 6455, section 10.3). */
function randomMask(): Uint8Array {
  if (poolAt === pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  poolAt += 4;
  return pool.subarray(poolAt - 4, poolAt);
}
