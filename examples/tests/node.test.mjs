import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, text, topic } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";
import { RealBroker } from "../../clients/typescript/packages/client/dist/test/support/real-broker.js";
import { within } from "../../clients/typescript/packages/client/dist/test/support/waiting.js";
import { blocks, command, Program, readme } from "./support.mjs";

const EXAMPLES = ["sensor-node", "live-page", "request-response"];
const reading = topic("sensors/{id}/reading", msgpack());
const status = topic("sensors/{id}/status", text);

/** Runs the body with a broker and a connected client, and stops the programs that the body starts. */
async function withBroker(body) {
  const broker = await RealBroker.start();
  const client = await connect(broker.url);
  const programs = [];
  const run = (line) => {
    const program = new Program(line, { TAUTWIRE_URL: broker.url });
    programs.push(program);
    return program;
  };
  try {
    await body({ broker, client, run });
  } finally {
    await Promise.all(programs.map((program) => program.stop("SIGKILL")));
    await client.close({ drainMs: 0 });
    await broker.stop();
  }
}

async function next(messages) {
  const { value } = await within(messages.next(), "message");
  return value;
}

test("all examples are set up in the same way", () => {
  const [setup] = blocks(readme("."), "sh");
  for (const example of EXAMPLES) assert.equal(blocks(readme(example), "sh")[0], setup);
});

test("the sensor publishes readings, and its status is correct after a stop and a crash", async () => {
  await withBroker(async ({ client, run }) => {
    const readings = client.subscribe(reading)[Symbol.asyncIterator]();
    const states = client.subscribe(status, { qos: 1 })[Symbol.asyncIterator]();
    const line = command("sensor-node", "sensor.mjs");
    const sensor = run(line);
    assert.equal((await next(states)).value, "online");
    for (const _ of [1, 2]) {
      const { params, value, properties } = await next(readings);
      assert.equal(params.id, "greenhouse");
      assert.equal(properties.contentType, "application/msgpack");
      assert.deepEqual(Object.keys(value), ["celsius", "humidity", "at"]);
      assert.ok(value.at instanceof Date && value.celsius > 10 && value.celsius < 40, JSON.stringify(value));
      await sensor.printed(new RegExp(`^greenhouse: ${value.celsius} °C, ${value.humidity} %$`, "m"));
    }
    assert.equal(await sensor.stop(), 0);
    assert.equal((await next(states)).value, "offline");
    const doomed = run(line);
    assert.equal((await next(states)).value, "online");
    await doomed.stop("SIGKILL");
    assert.equal((await next(states)).value, "offline");
  });
});

test("the sensor can start before the broker", async () => {
  const early = await RealBroker.start();
  const { url, port } = early;
  await early.stop();
  const sensor = new Program(command("sensor-node", "sensor.mjs"), { TAUTWIRE_URL: url });
  await sensor.printed(/; next attempt in \d+ ms$/m);
  const broker = await RealBroker.start([`127.0.0.1:${port}`]);
  try {
    await sensor.printed(/^greenhouse: .* °C/m);
  } finally {
    await sensor.stop();
    await broker.stop();
  }
});

test("the command in the sensor's README prints its readings", async () => {
  await withBroker(async ({ broker, run }) => {
    run(command("sensor-node", "sensor.mjs"));
    const watcher = run(`${command("sensor-node", "tautwire sub")} -p ${broker.port} -C 3`);
    assert.equal(await watcher.end(), 0);
    assert.match(watcher.output, /^sensors\/greenhouse\/status online$/m);
    assert.match(watcher.output, /^sensors\/greenhouse\/reading /m);
  });
});

test("requests get the responses that the README shows", async () => {
  await withBroker(async ({ run }) => {
    const thermostat = run(command("request-response", "thermostat.mjs"));
    await thermostat.printed(/^ready$/m);
    const ask = run(command("request-response", "ask.mjs"));
    assert.equal(await ask.end(), 0);
    assert.equal(ask.output, blocks(readme("request-response"), "text")[0]);
    assert.equal(await thermostat.stop(), 0);
  });
});
