import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectTcp, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, describe, test } from "node:test";
import { scram, ScramError } from "@tautwire/client/scram";
import { scramWith } from "#esm/scram/exchange.js";
import { connect, createClient } from "./support/clients.js";
import { FakeBroker } from "./support/fake-broker.js";
import { binary, noBroker, RealBroker } from "./support/real-broker.js";
import { failure, settled, within } from "./support/waiting.js";

interface Vector {
  id: string;
  mechanism: "SCRAM-SHA-256" | "SCRAM-SHA-512";
  user: string;
  password: string;
  client_nonce: string;
  client_first?: string;
  server_first?: string;
  client_final?: string;
  server_final?: string | null;
  result: string;
}

const file = new URL("../../../../../../spec/vectors/scram/cases.json", import.meta.url);
const { vectors } = JSON.parse(readFileSync(file, "utf8")) as { vectors: Vector[] };

const bytes = (text: string | null | undefined) => (typeof text === "string" ? new TextEncoder().encode(text) : undefined);
const read = (data: Uint8Array | undefined) => new TextDecoder().decode(data);

/** Runs an exchange: returns the messages of the client, or its error. */
async function run(vector: Vector): Promise<{ written: string[]; result: string }> {
  const written: string[] = [];
  try {
    const { user: userName, password, mechanism } = vector;
    const authentication = scramWith({ userName, password, mechanism }, () => vector.client_nonce);
    assert.equal(authentication.method, mechanism);
    written.push(read(await authentication.start!()));
    written.push(read(await authentication.step(bytes(vector.server_first))));
    await authentication.finish!(bytes(vector.server_final));
    return { written, result: "valid" };
  } catch (error) {
    assert.ok(error instanceof ScramError, String(error));
    return { written, result: error.code };
  }
}

test("every vector passes", async () => {
  assert.ok(vectors.length > 60);
  for (const vector of vectors) {
    const { client_first, client_final, result, id } = vector;
    const written = [client_first, client_final].filter((message) => message !== undefined);
    assert.deepEqual(await run(vector), { written, result }, id);
  }
});

const CHALLENGE = "r=nonce-and-more,s=AAAA,i=4096";
const ann = (maxIterations?: number) => scramWith({ userName: "ann", password: "pencil", maxIterations }, () => "nonce");

test("keys are cached for the same salt and iterations", async (t) => {
  const derive = t.mock.method(globalThis.crypto.subtle, "deriveBits");
  const authentication = ann();
  const challenged = async (challenge: string) => {
    await authentication.start!();
    await authentication.step(bytes(challenge));
    return derive.mock.callCount();
  };
  assert.deepEqual([await challenged(CHALLENGE), await challenged(CHALLENGE)], [1, 1]);
  assert.equal(await challenged("r=nonce-and-more,s=AAAA,i=4097"), 2);
  assert.equal(await challenged("r=nonce-and-more,s=AAAB,i=4097"), 3);
});

test("success that comes too early or twice is refused", async () => {
  const authentication = ann();
  const isUnproved = () => {
    for (const last of ["v=AAAA", "v="]) {
      assert.throws(() => authentication.finish!(bytes(last)), { code: "scram_server_signature" });
    }
  };
  isUnproved();
  await authentication.start!();
  isUnproved();
  await authentication.start!();
  await authentication.step(bytes(CHALLENGE));
  await assert.rejects(async () => authentication.step(bytes(CHALLENGE)), { code: "scram_malformed" });
  isUnproved();
});

test("the maximum of iterations is configurable, the minimum is not", async () => {
  const few = ann(4095);
  await few.start!();
  await assert.rejects(async () => few.step(bytes("r=nonce-and-more,s=AAAA,i=4095")), { code: "scram_iterations" });
  const many = ann(100_001);
  await many.start!();
  await many.step(bytes("r=nonce-and-more,s=AAAA,i=100001"));
});

test("each exchange has a unique nonce, and inspection shows no secrets", async () => {
  const authentication = scram({ userName: "ann", password: "pencil" });
  assert.notEqual(read(await authentication.start!()), read(await authentication.start!()));
  assert.ok(!JSON.stringify(authentication).includes("pencil"));
});

test("a server that does not know the password is refused, and gets no further packets", async () => {
  for (const [code, challenge] of [
    ["scram_server_signature", (nonce: string) => `r=${nonce}x,s=c2FsdA==,i=4096`],
    ["scram_iterations", (nonce: string) => `r=${nonce}x,s=c2FsdA==,i=4095`],
    ["scram_iterations", (nonce: string) => `r=${nonce}x,s=c2FsdA==,i=1000000000`],
    ["scram_nonce", () => "r=another,s=c2FsdA==,i=4096"],
  ] as const) {
    const broker = new FakeBroker();
    const authentication = scram({ userName: "ann", password: "pencil" });
    const client = createClient("mqtt://broker.example", { transport: broker.transport, authentication });
    void failure(client.publish("t", "private", { qos: 1 }));
    const link = await broker.next();
    const connect = await link.expect("connect");
    const nonce = read(connect.properties.authenticationData).split("r=")[1]!;
    const method = { authenticationMethod: "SCRAM-SHA-256" };
    const said = (text: string) => ({ ...method, authenticationData: bytes(text) });
    link.give({ type: "auth", reason: 0x18, properties: said(challenge(nonce)) });
    if (code === "scram_server_signature") {
      await link.expect("auth");
      link.give({ type: "connack", reason: 0, properties: said(`v=${"A".repeat(43)}=`) });
    }
    const error = await failure(client.connected());
    assert.equal(error.code, "authentication_failed");
    assert.equal((error.cause as ScramError).code, code);
    assert.ok(error.message.includes(code));
    await settled();
    assert.deepEqual([link.received.length, client.state], [0, "closed"]);
  }
});

describe("with the broker", { skip: noBroker }, () => {
  const folder = mkdtempSync(join(tmpdir(), "tautwire-scram-"));
  const [users, secret] = [join(folder, "users"), join(folder, "password")];
  let broker: RealBroker;

  before(async () => {
    writeFileSync(secret, "pencil");
    for (const name of ["ann", "a=b,c"]) {
      execFileSync(binary, ["user", "add", "--file", users, "--password-file", secret, name], { stdio: "ignore" });
    }
    broker = await RealBroker.start(["127.0.0.1:0"], [`auth.password_file=${users}`]);
  });

  after(async () => {
    await broker.stop();
    rmSync(folder, { recursive: true });
  });

  test("accepts the right password, and refuses a wrong one", async () => {
    for (const mechanism of ["SCRAM-SHA-256", "SCRAM-SHA-512"] as const) {
      for (const userName of ["ann", "a=b,c"]) {
        await (await connect(broker.url, { authentication: scram({ mechanism, userName, password: "pencil" }) })).close();
        const refused = connect(broker.url, { authentication: scram({ mechanism, userName, password: "rubber" }) });
        const { code, reason } = await failure(refused);
        assert.deepEqual([code, reason], ["connection_refused", 0x86]);
      }
    }
  });

  test("the example of the README runs as pasted", () => {
    const root = new URL("../../", import.meta.url);
    const readme = readFileSync(new URL("README.md", root), "utf8");
    const example = [...readme.matchAll(/```js\n(.*?)```/gs)].map((match) => match[1]!).find((code) => code.includes("/scram"));
    const script = example!.replace("mqtt://127.0.0.1:1883", broker.url).replace("correct horse battery staple", "pencil");
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: fileURLToPath(root), encoding: "utf8" });
    assert.equal(output, "connected\n");
  });

  test("a client re-authenticates while messages flow [MQTT-4.12.1-1]", async () => {
    const client = await connect(broker.url, { authentication: scram({ userName: "ann", password: "pencil" }) });
    const seen: string[] = [];
    const subscription = client.subscribe("t", { qos: 1 }, (message) => void seen.push(message.text()));
    await subscription.ready;
    const expected: string[] = [];
    for (let round = 0; round < 5; round++) {
      const sent = Array.from({ length: 20 }, (_, number) => `${round} ${number}`);
      expected.push(...sent);
      const publishing = sent.map((text) => client.publish("t", text, { qos: 1 }));
      await within(client.reauthenticate(), "re-authentication");
      await within(Promise.all(publishing), "acknowledgements");
    }
    await client.close();
    assert.deepEqual(seen, expected);
    assert.equal(client.counters.connections, 1);
  });

  test("a client authenticates again when it reconnects", async () => {
    const sockets = new Set<Socket>();
    const relay = createServer((socket) => {
      const upstream = connectTcp(broker.port, "127.0.0.1");
      for (const each of [socket, upstream]) each.on("error", () => each.destroy());
      sockets.add(socket.on("close", () => upstream.destroy()));
      socket.pipe(upstream).pipe(socket);
    });
    await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
    const client = await connect(`mqtt://127.0.0.1:${(relay.address() as AddressInfo).port}`, {
      authentication: scram({ mechanism: "SCRAM-SHA-512", userName: "ann", password: "pencil" }),
      reconnect: { minDelayMs: 1, maxDelayMs: 10 },
    });
    for (let n = 0; n < 3; n++) {
      for (const socket of sockets) socket.destroy();
      await within(client.publish("t", "x", { qos: 1 }), "acknowledgement after the client is back");
    }
    assert.ok(client.counters.connections > 1);
    await within(client.reauthenticate(), "re-authentication");
    await client.close();
    relay.close();
  });
});
