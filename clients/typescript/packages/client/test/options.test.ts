import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import {
  request,
  type ClientOptions,
  type MqttError,
  type PublishOptions,
  type RequestOptions,
  type ServerAddress,
} from "@tautwire/client";
import { suggest } from "#esm/suggest.js";
import { connect, createClient } from "./support/clients.js";
import { FakeBroker } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
import { event, failure, settled } from "./support/waiting.js";

describe("unknown options", () => {
  for (const [given, says] of [
    [{ username: "u" }, "there is no option username: did you mean userName?"],
    [{ keepalive: 30 }, "there is no option keepalive: did you mean keepAliveS?"],
    [{ sesionExpiryS: 30 }, "there is no option sesionExpiryS: did you mean sessionExpiryS?"],
    [{ clean: true }, "there is no option clean: did you mean cleanStart?"],
    [{ rejectUnauthorized: false }, "there is no option rejectUnauthorized: did you mean tls.rejectUnauthorized?"],
    [{ quantum: 1 }, "there is no option quantum"],
    [{ reconnect: { maxDelay: 1 } }, "there is no option maxDelay: did you mean maxDelayMs?"],
    [{ queue: { maxMessage: 1 } }, "there is no option maxMessage: did you mean maxMessages?"],
    [{ qos: 1 }, "there is no option qos"],
    [{ tls: { rejectUnauthorised: false } }, "there is no option rejectUnauthorised: did you mean rejectUnauthorized?"],
    [{ will: { topic: "t", payload: "x", retian: true } }, "there is no option retian: did you mean retain?"],
  ] as const) {
    test(says, async () => {
      const error = await failure(connect("mqtt://x", given as object));
      assert.deepEqual([error.code, error.detail], ["invalid_options", says]);
    });
  }

  test("of publish and request reject", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    for (const [given, says] of [
      [{ qos: 1, retained: true }, "there is no option retained: did you mean retain?"],
      [{ contentType: "text/plain" }, "there is no option contentType: did you mean properties.contentType?"],
    ] as const) {
      const error = await failure(client.publish("t", "x", given as object));
      assert.deepEqual([error.code, error.detail], ["invalid_options", says]);
    }
    assert.equal(client.counters.mistakes, 2);
    const waits = client.publish("t", "x", { retained: undefined } as PublishOptions);
    const error = await failure(request(client, "t", "x", { timeout: 5 } as RequestOptions));
    assert.deepEqual([error.code, error.detail], ["invalid_options", "there is no option timeout: did you mean timeoutMs?"]);
    await client.close({ drainMs: 0 });
    assert.equal((await failure(waits)).code, "closed");
  });

  test("an undefined one is ignored", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport, username: undefined } as ClientOptions);
    await client.close();
  });

  test("an MQTT.js name is suggested only where that option exists", () => {
    assert.equal(suggest("clean", ["qos", "ack"]), "");
    assert.equal(suggest("nl", ["qos", "noLocal"]), "noLocal");
    assert.equal(suggest("constructor", ["qos"]), "");
  });
});

test("inspecting a client shows no secrets", async () => {
  const broker = new FakeBroker();
  const client = createClient("ws://x/mqtt?token=hunter2", {
    clientId: "c-7",
    userName: "ann",
    password: "hunter2",
    headers: { Authorization: "Bearer hunter2" },
    transport: broker.transport,
  });
  const error = await failure(client.publish("a/#", "x"));
  for (const shown of [inspect(client, { depth: 9 }), inspect({ client }, { depth: 9 }), inspect(error, { depth: 9 })]) {
    assert.ok(!shown.includes("hunter2"), shown);
  }
  assert.match(inspect(client), /c-7/);
  await client.close();
});

describe("addresses", () => {
  test("one without a scheme is refused with a hint that never shows a password", () => {
    const detail = (address: string): string => {
      try {
        createClient(address);
      } catch (error) {
        assert.equal((error as MqttError).code, "invalid_options");
        return (error as MqttError).message;
      }
      return "";
    };
    assert.match(detail("127.0.0.1:1883"), /mqtt:\/\/127\.0\.0\.1:1883/);
    assert.match(detail("localhost:1883"), /mqtt:\/\/localhost:1883/);
    assert.match(detail("broker.example"), /mqtt:\/\/broker\.example/);
    assert.match(detail("http://x"), /begins with mqtt:\/\/ or mqtts:\/\/ or ws:\/\/ or wss:\/\//);
    assert.match(detail("mqtt://"), /mqtt:\/\/HOST:PORT/);
    assert.match(detail("mqtts://broker.example:99999"), /mqtts:\/\/HOST:PORT, with a port up to 65535/);
    for (const address of ["mqtt://u:secret@x", "u:secret@x", "mqtt://u:secret@x:99999"]) {
      assert.ok(detail(address) !== "" && !detail(address).includes("secret"), address);
    }
    assert.throws(() => createClient([]), { code: "invalid_options" });
  });

  test("one without TLS is refused together with TLS options", () => {
    for (const [address, scheme] of [["mqtt://h", "mqtt"], ["ws://h", "ws"]] as const) {
      const detail = `tls needs an mqtts:// or wss:// address, and the address begins with ${scheme}://`;
      assert.throws(() => createClient(address, { tls: { servername: "h" } }), { code: "invalid_options", detail });
    }
    void createClient("mqtt://h", { tls: { ca: undefined }, clock: new FakeClock() }).close();
  });

  test("only WebSocket and custom transports allow a path", () => {
    for (const address of ["mqtt://h/mqtt", "MQTTS://h/mqtt", "mqtt://h:1883?a=b", "mqtt://h#a"]) {
      assert.throws(() => createClient(address), { code: "invalid_options", detail: "only ws:// and wss:// addresses have a path" }, address);
      const { transport } = new FakeBroker();
      void createClient(address, { transport, clock: new FakeClock() }).close();
    }
    void createClient("mqtt://h/", { clock: new FakeClock() }).close();
  });

  test("a WebSocket address without a path gets /mqtt", async () => {
    for (const [address, expected] of [
      ["ws://h", "ws://h/mqtt"],
      ["wss://h:8084", "wss://h:8084/mqtt"],
      ["ws://h/", "ws://h/"],
      ["ws://h/a?b", "ws://h/a?b"],
      ["WS://h?a=/b", "ws://h/mqtt?a=/b"],
    ] as const) {
      let asked = "";
      const broker = new FakeBroker();
      const transport: ClientOptions["transport"] = (url, events, settings) => {
        asked = url.href;
        return broker.transport(url, events, settings);
      };
      const client = createClient(address, { transport });
      await broker.accept();
      await client.connected();
      assert.equal(asked, expected);
      await client.close();
    }
  });

  /** A transport with a server only under these names. It records the names that were tried. */
  function servers(names: readonly string[], options: ClientOptions = {}) {
    const broker = new FakeBroker();
    const clock = new FakeClock();
    const asked: string[] = [];
    const there = new Set(names);
    const transport: ClientOptions["transport"] = (url, events, settings) => {
      asked.push(url.hostname);
      broker.onConnection = () => there.has(url.hostname);
      return broker.transport(url, events, settings);
    };
    const all = (addresses: ServerAddress | readonly ServerAddress[]) =>
      createClient(addresses, { transport, clock, reconnect: { minDelayMs: 100, maxDelayMs: 100 }, ...options });
    return { broker, clock, asked, there, all, transport };
  }

  test("several are tried in turn, without a pause within a round, starting with the last successful one", async () => {
    const { broker, clock, asked, there, all } = servers(["b"]);
    const client = all(["mqtt://a", "mqtt://b", "mqtt://c"]);
    const delays: number[] = [];
    client.on("reconnecting", ({ delayMs }) => delays.push(delayMs));
    await clock.advance(0);
    const link = await broker.accept();
    await client.connected();
    assert.deepEqual([asked.splice(0), delays.splice(0)], [["a", "b"], [0]]);
    there.clear();
    link.drop();
    await settled();
    assert.ok(delays[0]! >= 50);
    await clock.advance(delays[0]!);
    assert.deepEqual(asked.splice(0), ["b", "c", "a"]);
    assert.deepEqual(delays.slice(1, 3), [0, 0]);
    assert.ok(delays[3]! >= 50);
    await clock.advance(delays[3]!);
    assert.deepEqual(asked, ["b", "c", "a"]);
    await client.close();
  });

  test("an unknown name and a closed port have different codes", async () => {
    // A name of this length fails without a query to the name service.
    const name = `${"x".repeat(64)}.invalid`;
    for (const scheme of ["mqtt", "mqtts", "ws", "wss"]) {
      assert.equal((await failure(connect(`${scheme}://${name}`))).code, "name_not_found");
      const nobody = await failure(connect(`${scheme}://127.0.0.1:1`));
      assert.equal(nobody.code, "unreachable");
      assert.match(nobody.message, /127\.0\.0\.1:1, .*ECONNREFUSED/);
    }
  });

  test("connect() tries each once, and reports the last failure", async () => {
    const { asked, transport } = servers([]);
    const error = await failure(connect(["mqtt://a", "mqtt://b"], { transport }));
    assert.equal(error.code, "unreachable");
    assert.match(error.message, /\(b, nobody is there\)/);
    assert.deepEqual(asked, ["a", "b"]);
  });

  test("a function returns the address for each attempt; if it fails, the client retries", async () => {
    const { broker, clock, asked, all } = servers(["s3"]);
    let count = 0;
    const client = all(() => {
      count++;
      if (count === 1) throw new Error("no token");
      return Promise.resolve(`mqtt://s${count}`);
    });
    const first = await event<{ error: { code: string; cause?: unknown } }>((l) => client.on("reconnecting", l));
    assert.equal(first.error.code, "callback_failed");
    await clock.advance(100);
    await clock.advance(100);
    await broker.accept();
    await client.connected();
    assert.deepEqual(asked, ["s2", "s3"]);
    await client.close();
  });

  test("the client retries if the credentials function fails", async () => {
    let count = 0;
    const { broker, clock, all } = servers(["a"], {
      credentials: () => {
        if (++count === 1) throw new Error("the service of tokens is away");
        return { userName: "u" };
      },
    });
    const client = all("mqtt://a");
    await settled();
    await clock.advance(100);
    await broker.accept();
    await client.connected();
    assert.equal(count, 2);
    await client.close();
  });
});

describe("giving up", () => {
  for (const [reason, isPermanent] of [
    [0x84, true],
    [0x85, true],
    [0x86, true],
    [0x87, true],
    [0x8a, true],
    [0x8c, true],
    [0x90, true],
    [0x95, true],
    [0x99, true],
    [0x9a, true],
    [0x9b, true],
    [0x9c, true],
    [0x81, false],
    [0x82, false],
    [0x88, false],
    [0x97, false],
    [0x9f, false],
  ] as const) {
    test(`CONNACK 0x${reason.toString(16)}: ${isPermanent ? "the client ends" : "it tries again"}`, async () => {
      const broker = new FakeBroker();
      const client = createClient("mqtt://x", { transport: broker.transport, clock: new FakeClock() });
      await broker.accept({ reason });
      await settled();
      assert.equal(client.state, isPermanent ? "closed" : "waiting");
      await client.close();
    });
  }

  test("reason codes of a refused will are permanent in CONNACK, but not in DISCONNECT", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport, clock: new FakeClock() });
    const link = await broker.accept();
    await client.connected();
    link.give({ type: "disconnect", reason: 0x9a });
    await settled();
    assert.equal(client.state, "waiting");
    await client.close();
  });
});
