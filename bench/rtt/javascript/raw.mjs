// The floor on Node.js: `tcp-echo`, `udp-echo`, `tcp-ping HOST PORT`, `udp-ping HOST PORT`. See c/raw.c.

import { createSocket } from "node:dgram";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";

const MESSAGE_BYTES = 40;
const [task, host, port] = process.argv.slice(2);

const TASKS = {
  "tcp-echo": () => {
    const server = createServer({ noDelay: true }, (socket) => {
      socket.on("data", (chunk) => socket.write(chunk)).on("close", () => process.exit());
    }).listen(0, "127.0.0.1", () => console.log(`ready ${server.address().port}`));
  },
  "udp-echo": () => {
    const socket = createSocket("udp4", (message, { port: from, address }) => socket.send(message, from, address));
    socket.bind(0, "127.0.0.1", () => console.log(`ready ${socket.address().port}`));
  },
  "tcp-ping": () => {
    const socket = connect({ host, port: Number(port), noDelay: true }, () => ping((bytes) => socket.write(bytes)));
    socket.on("data", (chunk) => onReply(chunk));
  },
  "udp-ping": () => {
    const socket = createSocket("udp4", (message) => onReply(message));
    socket.connect(Number(port), host, () => ping((bytes) => socket.send(bytes)));
  },
};

const times = new Uint32Array(1_000_000);
const message = Buffer.alloc(MESSAGE_BYTES, "p");
let send;
let count = 0;
let done = 0;
let end = 0n;
let sent = 0n;
let got = 0;

function ask() {
  message.writeUInt32LE(done, 0);
  sent = process.hrtime.bigint();
  send(message);
}

function onReply(chunk) {
  got += chunk.length;
  if (got < MESSAGE_BYTES) return;
  const now = process.hrtime.bigint();
  if (got > MESSAGE_BYTES || (chunk.length === MESSAGE_BYTES && message.compare(chunk) !== 0)) {
    throw new Error("not the reply to the last message");
  }
  got = 0;
  times[done++] = Number(now - sent);
  if (done < count && now < end) ask();
  else console.log(times.subarray(0, done).join(" "));
}

function ping(write) {
  send = write;
  createInterface({ input: process.stdin })
    .on("line", (line) => {
      const [, countText, limitText] = line.split(" ");
      count = Number(countText);
      done = 0;
      end = process.hrtime.bigint() + BigInt(limitText) * 1_000_000n;
      ask();
    })
    .on("close", () => process.exit());
  console.log("ready");
}

TASKS[task]();
