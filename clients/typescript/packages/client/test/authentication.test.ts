import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Authentication, ClientOptions } from "@tautwire/client";
import { createClient } from "./support/clients.js";
import { FakeBroker } from "./support/fake-broker.js";
import { failure, settled } from "./support/waiting.js";

function setup(options: ClientOptions) {
  const broker = new FakeBroker();
  return { broker, client: createClient("mqtt://broker.example", { transport: broker.transport, ...options }) };
}

const METHOD = { authenticationMethod: "M" };
const step = (): undefined => undefined;

describe("extended authentication", () => {
  test("performs the steps of a method, and re-authenticates on request", async () => {
    const said: string[] = [];
    const bytes = (text: string) => new TextEncoder().encode(text);
    const read = (data: Uint8Array | undefined) => new TextDecoder().decode(data);
    const { broker, client } = setup({
      authentication: {
        method: "SCRAM",
        start: () => bytes("first"),
        step: (data) => Promise.resolve(bytes(`answer to ${read(data)}`)),
        finish: (data) => {
          said.push(read(data));
        },
      },
    });
    const link = await broker.next();
    const { properties } = await link.expect("connect");
    assert.equal(properties.authenticationMethod, "SCRAM");
    assert.equal(read(properties.authenticationData), "first");
    const method = { authenticationMethod: "SCRAM" };
    link.give({ type: "auth", reason: 0x18, properties: { ...method, authenticationData: bytes("q1") } });
    assert.equal(read((await link.expect("auth")).properties.authenticationData), "answer to q1");
    link.give({ type: "connack", reason: 0, properties: { ...method, authenticationData: bytes("v1") } });
    await client.connected();
    const again = client.reauthenticate();
    const auth = await link.expect("auth");
    assert.equal(auth.reason, 0x19);
    link.give({ type: "auth", reason: 0, properties: { ...method, authenticationData: bytes("v2") } });
    await again;
    assert.deepEqual(said, ["v1", "v2"]);
    const lost = failure(client.reauthenticate());
    await link.expect("auth");
    link.drop();
    assert.equal((await lost).code, "connection_lost");
    await client.close();
  });

  test("an authentication function that throws ends the client", async () => {
    const { broker, client } = setup({
      authentication: {
        method: "M",
        step: () => {
          throw new Error("wrong signature");
        },
      },
    });
    const link = await broker.next();
    await link.expect("connect");
    link.give({ type: "auth", reason: 0x18, properties: { authenticationMethod: "M" } });
    const error = await failure(client.connected());
    assert.equal(error.code, "authentication_failed");
    assert.equal(client.state, "closed");
  });

  test("sends and reads nothing before the server's proof has been checked", async () => {
    let believe: () => void = () => undefined;
    const finish = () => new Promise<void>((resolve) => (believe = resolve));
    const { broker, client } = setup({ authentication: { method: "M", step, finish } });
    const messages: string[] = [];
    void client.publish("t", "mine", { qos: 1 });
    client.subscribe("t", (message) => void messages.push(message.text()));
    const link = await broker.next();
    await link.expect("connect");
    link.give({ type: "connack", reason: 0, properties: METHOD }, { type: "publish", topic: "t", payload: "theirs" });
    await settled();
    assert.deepEqual([link.received.length, client.state, messages.length, link.isPaused], [0, "connecting", 0, true]);
    believe();
    await client.connected();
    await link.grant();
    assert.equal((await link.expect("publish")).topic, "t");
    await settled();
    assert.deepEqual(messages, ["theirs"]);
    assert.equal(link.isPaused, false);
    await client.close();
  });

  test("a server that fails the check gets nothing, and the client ends", async () => {
    const finish = () => Promise.reject(new Error("another signature"));
    const { broker, client } = setup({ authentication: { method: "M", step, finish } });
    const publishing = failure(client.publish("t", "secret", { qos: 1 }));
    const link = await broker.next();
    await link.expect("connect");
    link.give({ type: "connack", reason: 0, properties: METHOD });
    const error = await failure(client.connected());
    assert.equal(error.code, "authentication_failed");
    assert.match(error.message, /another signature/);
    assert.equal(client.state, "closed");
    assert.equal((await publishing).code, "closed");
    await link.ended();
    assert.equal(link.received.length, 0);
  });

  test("a server that does not repeat the method is refused [MQTT-4.12.0-5]", async () => {
    for (const properties of [{}, { authenticationMethod: "N" }]) {
      let isFinished = false;
      const authentication: Authentication = { method: "M", step, finish: () => void (isFinished = true) };
      const { broker, client } = setup({ authentication, reconnect: false });
      const link = await broker.next();
      await link.expect("connect");
      link.give({ type: "connack", reason: 0, properties });
      assert.equal((await failure(client.connected())).code, "protocol_error");
      assert.equal(isFinished, false);
    }
  });

  test("an unexpected AUTH is refused, and so is a concurrent re-authentication", async () => {
    const give = async (reason: number, isConnected: boolean, method?: string) => {
      const authentication = method === undefined ? undefined : { method, step };
      const { broker, client } = setup({ authentication, reconnect: false });
      const link = await broker.next();
      await link.expect("connect");
      const properties = method === undefined ? {} : { authenticationMethod: method };
      if (isConnected) link.give({ type: "connack", reason: 0, properties });
      if (isConnected) await client.connected();
      const lost = new Promise<string>((resolve) => client.on("closed", ({ error }) => { resolve(error?.code ?? ""); }));
      link.give({ type: "auth", reason, properties: METHOD });
      return lost;
    };
    // [MQTT-4.12.0-6]
    assert.equal(await give(0x18, true), "protocol_error");
    for (const reason of [0, 0x18, 0x19]) assert.equal(await give(reason, true, "M"), "protocol_error");
    for (const reason of [0, 0x19]) assert.equal(await give(reason, false, "M"), "protocol_error");

    const { broker, client } = setup({ authentication: { method: "M", step } });
    const link = await broker.accept({ properties: METHOD });
    await client.connected();
    const first = client.reauthenticate();
    assert.equal((await failure(client.reauthenticate())).code, "not_supported");
    assert.equal((await link.expect("auth")).reason, 0x19);
    link.give({ type: "auth", reason: 0, properties: METHOD });
    await first;
    const second = failure(client.reauthenticate());
    await link.expect("auth");
    // [MQTT-4.12.1-2]
    link.give({ type: "disconnect", reason: 0x87 });
    const { code, reason } = await second;
    assert.deepEqual([code, reason, client.state], ["server_disconnected", 0x87, "closed"]);
  });
});
