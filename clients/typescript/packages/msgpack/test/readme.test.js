import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

test("the README's examples run as pasted and print the output shown", () => {
  const text = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const examples = [...text.matchAll(/```js\n([\s\S]*?)```/g)].map((match) => match[1]);
  assert.ok(examples.length >= 2);
  for (const source of examples) {
    const cwd = fileURLToPath(new URL("..", import.meta.url));
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", source], { cwd, encoding: "utf8" });
    assert.equal(status, 0, stderr);
    const promised = [...source.matchAll(/console\.log\(.*\/\/ (.*)/g)].map((match) => `${match[1]}\n`).join("");
    assert.equal(stdout, promised);
  }
});
