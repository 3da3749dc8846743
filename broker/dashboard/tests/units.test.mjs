// Tests without a browser: addresses and figures.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

async function load(path) {
  const built = await build({ entryPoints: [fileURLToPath(new URL(`../src/${path}`, import.meta.url))], bundle: true, write: false, format: "esm", platform: "neutral", external: ["preact/hooks"], mainFields: ["module"] });
  const text = built.outputFiles[0].text.replace(/^import .* from "preact\/hooks";$/m, "const useState = undefined, useEffect = undefined;");
  return import(`data:text/javascript;base64,${Buffer.from(text).toString("base64")}`);
}

const { href, parseHash } = await load("router.ts");
const format = await load("format.ts");

test("an address is parsed for any client identifier", () => {
  for (const name of ["a", "a/b", "größe #?%&=+", "..", "%2F"]) {
    assert.deepEqual(parseHash(href(["clients", name], { topic: name })), { path: ["clients", name], query: { topic: name } });
  }
  assert.deepEqual(parseHash(""), { path: [], query: {} });
  assert.deepEqual(parseHash("#/clients/%zz"), { path: ["clients", "%zz"], query: {} });
  assert.equal(href(["clients"], { a: "", b: null }), "#/clients");
});

test("figures are human-readable", () => {
  assert.equal(format.bytes(0), "0 B");
  assert.equal(format.bytes(1_536), "1.5 KiB");
  assert.equal(format.bytes(2 ** 60), "1,048,576 TiB");
  assert.equal(format.rate(12.34), "12.3/s");
  assert.equal(format.rate(12_345.6), "12,346/s");
  assert.equal(format.count(null), "–");
  assert.equal(format.micros(410), "410 µs");
  assert.equal(format.micros(2_940), "2.9 ms");
  assert.equal(format.duration(266_400), "3 days 2 hours");
  assert.equal(format.duration(3_601), "1 hour");
  assert.equal(format.relative(1_000, 62_000), "1 minute 1 second ago");
  assert.equal(format.relative(62_000, 1_000), "in 1 minute 1 second");
  assert.equal(format.expiry(0), "when the client disconnects");
  assert.equal(format.expiry(0xffff_ffff), "never");
});

test("events are parsed even if their text is split", async () => {
  const { EventParser } = await load("api/events.ts");
  const text = ': open\n\nevent: message\ndata: {"a":1}\n\ndata: one\r\ndata: two\r\n\r\nevent: nothing\n\n';
  for (let at = 0; at <= text.length; at += 1) {
    const events = [];
    const parser = new EventParser((event) => events.push(event));
    parser.push(text.slice(0, at));
    parser.push(text.slice(at));
    assert.deepEqual(events, [
      { name: "message", data: '{"a":1}' },
      { name: "message", data: "one\ntwo" },
    ]);
  }
});
