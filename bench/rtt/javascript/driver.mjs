// A driver on Node.js: `LIBRARY echo HOST PORT QOS NAME` or `LIBRARY ping HOST PORT QOS DIGIT`; LIBRARY is tautwire or mqttjs.
// See README.md.

import { createInterface } from "node:readline";

const [library, task, host, port, qosText, name] = process.argv.slice(2);
const qos = Number(qosText);
const { open } = await import(`./${library}.mjs`);

const DIGIT_ZERO = 48;
const PAYLOAD_BYTES = 16;

if (task === "echo") {
  const back = Array.from({ length: 10 }, (_, digit) => `rtt/${qos}/back/${digit}`);
  const client = await open(host, Number(port), qos, `rtt/${qos}/there/${name}`, (payload) => {
    client.publish(back[payload[0] - DIGIT_ZERO], payload);
  });
} else {
  const times = new Uint32Array(1_000_000);
  const payload = Buffer.alloc(PAYLOAD_BYTES);
  let topic = "";
  let number = 0;
  let count = 0;
  let done = 0;
  let end = 0n;
  let sent = 0n;

  const ask = () => {
    payload.write(name + String(++number).padStart(PAYLOAD_BYTES - 1, "0"), "latin1");
    sent = process.hrtime.bigint();
    client.publish(topic, payload);
  };
  const client = await open(host, Number(port), qos, `rtt/${qos}/back/${name}`, (reply) => {
    const now = process.hrtime.bigint();
    if (payload.compare(reply) !== 0) throw new Error("not the reply to the last message");
    times[done++] = Number(now - sent);
    if (done < count && now < end) ask();
    else console.log(times.subarray(0, done).join(" "));
  });
  createInterface({ input: process.stdin })
    .on("line", (line) => {
      const [server, countText, limitText] = line.split(" ");
      topic = `rtt/${qos}/there/${server}`;
      count = Number(countText);
      done = 0;
      end = process.hrtime.bigint() + BigInt(limitText) * 1_000_000n;
      ask();
    })
    .on("close", () => process.exit());
}
console.log("ready");
