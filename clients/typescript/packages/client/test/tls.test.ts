// TLS with the broker of this repository: each certificate problem and its error.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { MqttErrorCode, TlsOptions } from "@tautwire/client";
import { connect } from "./support/clients.js";
import { binary, noBroker, RealBroker } from "./support/real-broker.js";
import { failure, within } from "./support/waiting.js";

const fixture = (name: string): string => readFileSync(new URL(`../../test/fixtures/${name}`, import.meta.url), "utf8");

describe("TLS with the broker", { skip: noBroker }, () => {
  const folder = mkdtempSync(join(tmpdir(), "tautwire-tls-"));
  const file = (name: string): string => join(folder, name);
  const pem = (name: string): string => readFileSync(file(name), "utf8");
  const brokers: RealBroker[] = [];

  before(() => {
    cert("ours", "--client", "good", "--client", "revoked-one");
    cert("ours", "--client", "late", "--days", "-1");
    cert("ours", "--revoke", file("ours/revoked-one.pem"));
    cert("strange", "--client", "stranger");
    cert("expired", "--days", "-1");
    cert("withdrawn");
    cert("withdrawn", "--revoke", file("withdrawn/server.pem"));
  });
  after(async () => {
    await Promise.all(brokers.map((broker) => broker.stop()));
    rmSync(folder, { recursive: true });
  });

  function cert(name: string, ...options: string[]): void {
    const { status, stderr } = spawnSync(binary, ["cert", "--dir", file(name), ...options], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  }

  async function start(certificate: string, key: string, settings: readonly string[] = []): Promise<readonly [string, string]> {
    const listen = ["mqtts://127.0.0.1:0", "wss://127.0.0.1:0/mqtt"];
    const broker = await RealBroker.start(listen, [`tls.certificate=${certificate}`, `tls.key=${key}`, ...settings]);
    brokers.push(broker);
    const [mqtts, wss] = broker.urls.map((url) => url.replace("127.0.0.1", "localhost"));
    return [mqtts!, wss!];
  }

  const startOf = (name: string, settings?: readonly string[]) =>
    start(file(`${name}/server.pem`), file(`${name}/server.key`), settings);

  async function refused(url: string, tls: TlsOptions, code: MqttErrorCode, says: RegExp): Promise<void> {
    const error = await failure(within(connect(url, { tls }), "refusal"));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, says);
  }

  test("messages pass over mqtts and wss, with ALPN and by address", async () => {
    const [mqtts, wss] = await startOf("ours");
    const ca = pem("ours/ca.pem");
    for (const [url, alpn] of [
      [mqtts, "mqtt"],
      [wss, "http/1.1"],
      [mqtts.replace("localhost", "127.0.0.1"), undefined],
    ] as const) {
      const client = await connect(url, { tls: { ca, ...(alpn !== undefined && { alpnProtocols: [alpn] }) } });
      const subscription = client.subscribe("t", { qos: 1 });
      await subscription.ready;
      await client.publish("t", "x", { qos: 1 });
      for await (const message of subscription) {
        assert.equal(message.text(), "x");
        break;
      }
      await client.close();
    }
    await refused(mqtts, { ca, alpnProtocols: ["h2"] }, "tls_no_shared_parameters", /alpnProtocols/);
  });

  test("problems of the server's certificate have codes", async () => {
    const ca = pem("ours/ca.pem");
    for (const url of await startOf("ours")) {
      await refused(url, {}, "tls_unknown_authority", /authority that is not trusted/);
      await refused(url, { ca: pem("strange/ca.pem") }, "tls_unknown_authority", /`tls.ca`/);
      await refused(url, { ca, servername: "other.example" }, "tls_name_mismatch", /is for localhost, 127\.0\.0\.1.*not for other\.example/);
      await (await connect(url, { tls: { rejectUnauthorized: false } })).close();
    }
    const [expired] = await startOf("expired");
    await refused(expired, { ca: pem("expired/ca.pem") }, "tls_expired", /has expired/);
    const [withdrawn] = await startOf("withdrawn");
    const trust = { ca: pem("withdrawn/ca.pem") };
    await (await connect(withdrawn, { tls: trust })).close();
    await refused(withdrawn, { ...trust, crl: pem("withdrawn/revoked.pem") }, "tls_revoked", /has been revoked/);
    const path = (name: string): string => new URL(`../../test/fixtures/${name}`, import.meta.url).pathname;
    const [own] = await start(path("test-only-certificate.pem"), path("test-only-key.pem"));
    await refused(own, { ca }, "tls_self_signed", /has issued its certificate itself.*`tls.ca`/);
    await (await connect(own, { tls: { ca: fixture("test-only-certificate.pem") } })).close();
  });

  test("problems of the client's certificate have codes", async () => {
    const [mqtts, wss] = await startOf("ours", [
      "tls.client_certificates=required",
      `tls.client_ca=${file("ours/ca.pem")}`,
      `tls.crl=${file("ours/revoked.pem")}`,
    ]);
    const ca = pem("ours/ca.pem");
    const shows = (name: string): TlsOptions => ({ ca, cert: pem(`${name}.pem`), key: pem(`${name}.key`) });
    for (const url of [mqtts, wss]) {
      await (await connect(url, { tls: shows("ours/good") })).close();
      await refused(url, { ca }, "tls_client_certificate_required", /asks for a certificate.*`tls.cert`/);
      for (const [name, says] of [
        ["ours/revoked-one", /it has been revoked/],
        ["ours/late", /it has expired/],
        ["strange/stranger", /the server does not trust the authority that issued it/],
        ["ours/server", /it is not a client certificate/],
      ] as const) {
        await refused(url, shows(name), "tls_client_certificate_refused", says);
      }
    }
    const mixed = { ca, cert: pem("ours/good.pem"), key: pem("ours/late.key") };
    await refused(mqtts, mixed, "tls_options", /not the key of the certificate/);
    await refused(mqtts, { ca, cert: "no certificate", key: mixed.key }, "tls_options", /PEM/);
  });

  test("detects a server without TLS", async () => {
    const servers = ["HTTP/1.1 400 Bad Request\r\n\r\n", ""].map((answer) =>
      createServer((socket) => {
        socket.once("data", () => socket.end(answer)).on("error", () => undefined);
      }),
    );
    try {
      const [talks, hangsUp] = await Promise.all(
        servers.map(async (server) => {
          await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
          return `mqtts://127.0.0.1:${(server.address() as AddressInfo).port}`;
        }),
      );
      await refused(talks!, {}, "tls_not_supported", /does not speak TLS/);
      await refused(hangsUp!, {}, "tls_closed", /during the TLS handshake/);
    } finally {
      for (const server of servers) server.close();
    }
  });
});
