// dist/ is up to date with the sources, and conforms to the page's content security policy.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { SERVED, files } from "../build.mjs";

const dist = (name) => readFile(new URL(`../dist/${name}`, import.meta.url));

test("a fresh build equals the committed files", async () => {
  for (const [name, text] of await files()) {
    assert.ok(text === (await dist(name)).toString(), `dist/${name} is not current: run \`npm run build\` in broker/dashboard, and commit dist`);
  }
});

test("the compressed files have the same content", async () => {
  for (const name of SERVED) {
    // Not compared byte for byte: versions of zlib compress differently.
    assert.deepEqual(gunzipSync(await dist(`${name}.gz`)), await dist(name), name);
  }
});

test("the page has no inline script or style, and refers to no other host", async () => {
  const html = (await dist("index.html")).toString();
  assert.doesNotMatch(html, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/i);
  for (const name of SERVED) {
    const foreign = [...(await dist(name)).toString().matchAll(/(?:https?:)?\/\/[\w-]+(?:\.[\w-]+)+/g)].map(([address]) => address);
    // XML namespaces, which are not loaded.
    assert.deepEqual(foreign.filter((address) => !address.endsWith("//www.w3.org")), [], name);
  }
});
