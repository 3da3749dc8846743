// Runs the tests again with code generation or `__proto__` forbidden, and without Node's `Buffer`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const withoutBuffer = new URL("./without-buffer.js", import.meta.url).href;

function run(names, ...args) {
  const env = { ...process.env };
  // The runner sets it for its children, but these are separate programs.
  delete env.NODE_TEST_CONTEXT;
  for (const name of names) {
    const file = fileURLToPath(new URL(`./${name}.test.js`, import.meta.url));
    const { status, stdout, stderr } = spawnSync(process.execPath, [...args, file], { encoding: "utf8", env });
    assert.equal(status, 0, `${file}\n${stdout}\n${stderr}`);
  }
}

test("with code generation forbidden", () => {
  run(["vectors", "shapes", "hostile"], "--disallow-code-generation-from-strings");
});

test("with __proto__ forbidden", () => {
  run(["shapes"], "--disable-proto=throw");
  run(["shapes"], "--disable-proto=delete");
});

test("without Buffer", () => {
  run(["vectors", "shapes", "stream"], "--import", withoutBuffer);
});
