// The cost of round trips without MQTT: TCP sockets of Node.js through a process that echoes (`relay`), or
// through one that forwards to another process that echoes, like a broker (`pass`).

import { connect, createServer } from "node:net";

const [task, portText, countText] = process.argv.slice(2);
const port = Number(portText);
const message = Buffer.alloc(40, 120);

function serve(onSocket) {
  const server = createServer({ noDelay: true }, onSocket).listen(0, "127.0.0.1", () => process.send?.({ port: server.address().port }));
}

const sockets = [];
const TASKS = {
  relay: () => serve((socket) => socket.on("data", (chunk) => socket.write(chunk)).on("error", () => {})),
  pass: () =>
    serve((socket) => {
      sockets.push(socket);
      socket.on("data", (chunk) => sockets.find((other) => other !== socket)?.write(chunk)).on("error", () => {});
      if (sockets.length === 2) for (const each of sockets) each.write("r");
    }),
  echo: () => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    let isReady = false;
    socket.on("data", (chunk) => {
      if (isReady) socket.write(chunk);
      isReady = true;
    });
  },
  ping: () => pinging(false),
  pingThrough: () => pinging(true),
};

function pinging(waits) {
  const count = Number(countText);
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let left = count / 5 + count;
  let start;
  let cpu;
  let isReady = !waits;
  if (isReady) socket.write(message);
  socket.on("data", () => {
    if (!isReady) {
      isReady = true;
      setTimeout(() => socket.write(message), 50);
      return;
    }
    left--;
    if (left === count) {
      start = process.hrtime.bigint();
      cpu = process.cpuUsage();
    }
    if (left > 0) {
      socket.write(message);
      return;
    }
    const { user, system } = process.cpuUsage(cpu);
    process.send({ count, wall_s: Number(process.hrtime.bigint() - start) / 1e9, cpu_s: (user + system) / 1e6 });
    process.exit();
  });
}

process.on("disconnect", () => process.exit());
TASKS[task]();
