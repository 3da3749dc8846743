// WebSocket frames of a client (RFC 6455, section 5), without I/O. For Node.js, whose older versions have no WebSocket, and whose
// newer WebSocket can neither pause nor send headers.

/** An invalid frame from the server, with the close code to send (RFC 6455, section 7.4). */
export class FrameError extends Error {
  constructor(
    message: string,
    readonly closeCode: number,
  ) {
    super(message);
  }
}

export const OP_BINARY = 2;
export const OP_CLOSE = 8;
export const OP_PING = 9;
export const OP_PONG = 10;

const CONTROL_MAX_BYTES = 125;

/** The events of a {@link FrameReader}. Data is passed on as it arrives: packets and frames need not align `[MQTT-6.0.0-2]`. */
export interface FrameEvents {
  onData(piece: Uint8Array): void;
  onControl(opcode: number, payload: Uint8Array): void;
}

/** Parses frames from chunks of any size. */
export class FrameReader {
  private readonly header = new Uint8Array(10);
  private headerLength = 0;
  private opcode = 0;
  /** The remaining bytes of the current frame; -1 while its header is incomplete. */
  private left = -1;
  private isInMessage = false;
  private control: Uint8Array | null = null;
  private controlAt = 0;

  constructor(private readonly events: FrameEvents) {}

  /** @throws {FrameError} The server violates the protocol. */
  push(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length || this.left === 0) {
      if (this.left < 0) {
        this.header[this.headerLength++] = chunk[at++]!;
        this.readHeader();
        continue;
      }
      const end = Math.min(chunk.length, at + this.left);
      this.piece(chunk.subarray(at, end));
      this.left -= end - at;
      at = end;
      if (this.left === 0) this.finishFrame();
    }
  }

  private readHeader(): void {
    const { header, headerLength } = this;
    if (headerLength < 2) return;
    const length = header[1]! & 0x7f;
    if (headerLength === 2) this.checkHeader(header[0]!, header[1]!);
    const headerBytes = length === 127 ? 10 : length === 126 ? 4 : 2;
    if (headerLength < headerBytes) return;
    this.left = length;
    if (length === 126) this.left = (header[2]! << 8) | header[3]!;
    if (length === 127) {
      const view = new DataView(header.buffer);
      this.left = view.getUint32(2) * 2 ** 32 + view.getUint32(6);
      if (this.left > Number.MAX_SAFE_INTEGER) throw new FrameError("the length of a frame is too large", 1009);
    }
    if (this.opcode >= OP_CLOSE) {
      this.control = new Uint8Array(this.left);
      this.controlAt = 0;
    }
    this.headerLength = 0;
  }

  private checkHeader(first: number, second: number): void {
    const isLast = (first & 0x80) !== 0;
    if ((first & 0x70) !== 0) throw new FrameError("reserved bits are set", 1002);
    if ((second & 0x80) !== 0) throw new FrameError("the server sent a masked frame", 1002);
    this.opcode = first & 15;
    switch (this.opcode) {
      case 0:
        if (!this.isInMessage) throw new FrameError("a continuation frame without a message", 1002);
        this.isInMessage = !isLast;
        break;
      case OP_BINARY:
        if (this.isInMessage) throw new FrameError("a new message before the end of the previous one", 1002);
        this.isInMessage = !isLast;
        break;
      case 1:
        // [MQTT-6.0.0-1]
        throw new FrameError("a text frame", 1003);
      case OP_CLOSE:
      case OP_PING:
      case OP_PONG:
        if (!isLast || (second & 0x7f) > CONTROL_MAX_BYTES) throw new FrameError("a control frame is fragmented or too long", 1002);
        break;
      default:
        throw new FrameError("an unknown opcode", 1002);
    }
  }

  private piece(bytes: Uint8Array): void {
    if (this.control === null) {
      if (bytes.length > 0) this.events.onData(bytes);
    } else {
      this.control.set(bytes, this.controlAt);
      this.controlAt += bytes.length;
    }
  }

  private finishFrame(): void {
    this.left = -1;
    const { control } = this;
    if (control === null) return;
    this.control = null;
    this.events.onControl(this.opcode, control);
  }
}

/** Encodes the header of a frame of a client: final, and masked with these four bytes. */
export function frameHeader(opcode: number, length: number, mask: Uint8Array): Uint8Array {
  const size = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const header = new Uint8Array(size + 4);
  header[0] = 0x80 | opcode;
  if (size === 2) {
    header[1] = 0x80 | length;
  } else if (size === 4) {
    header[1] = 0x80 | 126;
    header[2] = length >> 8;
    header[3] = length;
  } else {
    header[1] = 0x80 | 127;
    const view = new DataView(header.buffer);
    view.setUint32(2, Math.floor(length / 2 ** 32));
    view.setUint32(6, length % 2 ** 32);
  }
  header.set(mask, size);
  return header;
}

/** Masks in place (RFC 6455, section 5.3), four bytes at a time if the alignment allows it. */
export function applyMask(bytes: Uint8Array, mask: Uint8Array): void {
  let at = 0;
  if (bytes.byteOffset % 4 === 0 && bytes.length >= 32) {
    const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    const word = new Int32Array(mask.slice().buffer)[0]!;
    for (let i = 0; i < words.length; i++) words[i]! ^= word;
    at = words.length * 4;
  }
  for (; at < bytes.length; at++) bytes[at]! ^= mask[at & 3]!;
}
