import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import { encode } from "@tautwire/mqtt-codec";
import { applyMask, FrameError, frameHeader, FrameReader } from "#esm/transport/frames.js";
import { connect } from "./support/clients.js";
import { failure, within } from "./support/waiting.js";

/** Encodes a frame of a server. */
function frame(first: number, payload: Uint8Array): Buffer {
  const header = frameHeader(first & 15, payload.length, new Uint8Array(4)).slice(0, -4);
  header[0] = first;
  header[1]! &= 0x7f;
  return Buffer.concat([header, payload]);
}

function readAll(bytes: Uint8Array, cut: number): { data: number[]; controls: [number, number[]][] } {
  const data: number[] = [];
  const controls: [number, number[]][] = [];
  const reader = new FrameReader({
    onData: (piece) => data.push(...piece),
    onControl: (opcode, payload) => controls.push([opcode, [...payload]]),
  });
  for (let at = 0; at < bytes.length; at += cut) reader.push(bytes.subarray(at, at + cut));
  return { data, controls };
}

describe("frames", () => {
  test("split anywhere, fragmented, and with interleaved control frames", () => {
    const long = new Uint8Array(70_000).map((_, n) => n);
    const bytes = Buffer.concat([
      frame(0x82, Uint8Array.of(1, 2)),
      frame(0x02, Uint8Array.of(3)),
      frame(0x89, Uint8Array.of(9)),
      frame(0x00, Uint8Array.of()),
      frame(0x80, Uint8Array.of(4)),
      frame(0x8a, Uint8Array.of()),
      frame(0x82, long.subarray(0, 300)),
      frame(0x82, long),
    ]);
    for (const cut of [1, 2, 3, 7, 1_000, Infinity]) {
      const { data, controls } = readAll(bytes, cut);
      assert.deepEqual(data, [1, 2, 3, 4, ...long.subarray(0, 300), ...long]);
      assert.deepEqual(controls, [
        [9, [9]],
        [10, []],
      ]);
    }
  });

  test("invalid frames from a server", () => {
    for (const [bytes, code] of [
      [Uint8Array.of(0x81, 1, 65), 1003],
      [Uint8Array.of(0xc2, 0), 1002],
      [Uint8Array.of(0x82, 0x81), 1002],
      [Uint8Array.of(0x80, 0), 1002],
      [Uint8Array.of(0x02, 0, 0x82, 0), 1002],
      [Uint8Array.of(0x09, 0), 1002],
      [Uint8Array.of(0x89, 126), 1002],
      [Uint8Array.of(0x83, 0), 1002],
      [Uint8Array.of(0x82, 127, 255, 255, 255, 255, 0, 0, 0, 0), 1009],
    ] as const) {
      assert.throws(
        () => readAll(bytes, Infinity),
        (error: unknown) => error instanceof FrameError && error.closeCode === code,
        Buffer.from(bytes).toString("hex"),
      );
    }
  });

  test("masking is its own inverse, at every alignment and for every length", () => {
    const mask = Uint8Array.of(1, 20, 300, 77);
    for (let offset = 0; offset < 8; offset++) {
      for (const length of [0, 1, 3, 31, 32, 33, 100, 101]) {
        const memory = new Uint8Array(200).map((_, n) => n);
        const bytes = memory.subarray(offset, offset + length);
        const plain = bytes.slice();
        applyMask(bytes, mask);
        assert.deepEqual([...bytes], [...plain].map((byte, n) => byte ^ mask[n & 3]!));
        assert.equal(memory[offset + length], (offset + length) & 255);
        applyMask(bytes, mask);
        assert.deepEqual(bytes, plain);
      }
    }
  });
});

describe("the opening handshake", () => {
  let server: Server;
  let url: string;
  let answer: (socket: Socket, head: string, key: string) => void;

  before(async () => {
    server = createServer((socket) => {
      let head = "";
      const read = (chunk: Buffer) => {
        head += chunk.toString("latin1");
        if (!head.includes("\r\n\r\n")) return;
        socket.off("data", read);
        answer(socket, head, /sec-websocket-key: (.*)\r/i.exec(head)![1]!);
      };
      socket.on("data", read).on("error", () => undefined);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/mqtt?x=1`;
  });
  after(() => {
    server.close();
  });

  const accept = (key: string): string =>
    createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  const switching = (key: string, more = "Sec-WebSocket-Protocol: mqtt\r\n"): string =>
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept(key)}\r\n${more}\r\n`;

  test("sends the request of the standards, with the headers of the options", async () => {
    const seen = new Promise<string>((resolve) => {
      answer = (socket, head) => {
        resolve(head);
        socket.destroy();
      };
    });
    await failure(connect(url, { headers: { Authorization: "Bearer x" } }));
    const head = await seen;
    assert.match(head, /^GET \/mqtt\?x=1 HTTP\/1\.1\r\n/);
    for (const line of ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: mqtt", "Authorization: Bearer x"]) {
      assert.ok(head.includes(`\r\n${line}\r\n`), line);
    }
  });

  test("reports the status of a refusal", async () => {
    answer = (socket) => socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    const error = await failure(connect(url));
    assert.deepEqual([error.code, error.status, error.detail], ["websocket_refused", 403, "HTTP/1.1 403 Forbidden"]);
  });

  test("the headers function is called for each attempt, and an invalid header is an error without its value", async () => {
    let count = 0;
    const seen: string[] = [];
    answer = (socket, head) => {
      seen.push(/authorization: (.*)\r/i.exec(head)![1]!);
      socket.end("HTTP/1.1 503 Busy\r\n\r\n");
    };
    const error = await failure(
      connect([url, url], { headers: () => Promise.resolve({ Authorization: `Bearer ${++count}` }) }),
    );
    assert.equal(error.code, "websocket_refused");
    assert.deepEqual(seen, ["Bearer 1", "Bearer 2"]);
    const wrong = await failure(connect(url, { headers: { Authorization: "secret\r\nX: y" } }));
    assert.equal(wrong.code, "invalid_argument");
    assert.match(wrong.message, /Authorization/);
    assert.doesNotMatch(wrong.message, /secret/);
  });

  for (const [name, response] of [
    ["another status", () => "HTTP/1.1 403 Forbidden\r\n\r\n"],
    ["a wrong key", () => switching("other")],
    ["no subprotocol", (key: string) => switching(key, "")],
    ["another subprotocol", (key: string) => switching(key, "Sec-WebSocket-Protocol: chat\r\n")],
    ["no end", () => `HTTP/1.1 101 ${"x".repeat(20_000)}`],
    ["no HTTP", () => "220 mail.example\r\n\r\n"],
  ] as const) {
    test(`refuses ${name}`, async () => {
      answer = (socket, _, key) => socket.write(response(key));
      assert.equal((await failure(connect(url))).code, "websocket_refused");
    });
  }

  test("packets split across frames, a ping that is answered, a close that is returned", async () => {
    const pong = new Promise<Buffer>((resolve) => {
      answer = (socket, _, key) => {
        const connack = encode({ type: "connack", reason: 0 });
        socket.write(switching(key));
        socket.once("data", () => {
          const pieces = [frame(0x02, connack.subarray(0, 2)), frame(0x89, Uint8Array.of(7)), frame(0x80, connack.subarray(2))];
          for (const byte of Buffer.concat(pieces)) socket.write(Uint8Array.of(byte));
          socket.once("data", resolve);
        });
      };
    });
    const client = await connect(url, { reconnect: false });
    const bytes = await within(pong, "pong");
    assert.equal(bytes[0], 0x8a);
    assert.equal(bytes[6]! ^ bytes[2]!, 7);
    await client.close();
  });

  test("a server that closes with a code is a failure with that code", async () => {
    answer = (socket, _, key) => {
      socket.write(Buffer.concat([Buffer.from(switching(key)), frame(0x88, Uint8Array.of(1008 >> 8, 1008 & 255))]));
    };
    assert.match((await failure(connect(url))).message, /1008/);
  });
});
