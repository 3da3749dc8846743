// Runs the built packages in the supported runtimes. package.json pins their versions; npm installs
// them, about 340 MB. The broker is bin/tautwire, or TAUTWIRE_BIN.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const RUNTIMES = { "Node.js": ["node"], Deno: ["deno", "run", "--allow-all"], Bun: ["bun"] };
const TIMEOUT_MS = 120_000;

install();
const broker = spawn(
  process.env.TAUTWIRE_BIN ?? here("../../../bin/tautwire"),
  ["serve", "--memory", "--threads", "1", "--listen", "127.0.0.1:0", "--listen", "ws://127.0.0.1:0/mqtt", "--set", "log.level=warn"],
  { stdio: ["ignore", "pipe", "inherit"] },
);
try {
  const urls = await listening(2);
  for (const [name, [command, ...options]] of Object.entries(RUNTIMES)) {
    const program = here(`node_modules/.bin/${command}`);
    const run = (script, ...given) =>
      execFileSync(program, [...options, here(script), ...given], { stdio: "inherit", timeout: TIMEOUT_MS });
    console.log(`${name} ${execFileSync(program, ["--version"], { encoding: "utf8" }).split("\n")[0]}`);
    run("codec.mjs");
    run("msgpack.mjs");
    run("client.mjs", ...urls);
  }
} finally {
  broker.kill();
}

function install() {
  const installed = here("node_modules/.package-lock.json");
  const isNew = existsSync(installed) && statSync(installed).mtimeMs > statSync(here("package.json")).mtimeMs;
  // Without a lock file, because it would need the builds for all platforms, which not every registry has.
  const options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"];
  if (!isNew) execFileSync("npm", ["install", ...options], { cwd: here("."), stdio: "inherit" });
}

/** The URLs on which the broker listens. */
async function listening(count) {
  const urls = [];
  for await (const line of createInterface({ input: broker.stdout })) {
    urls.push(line.replace("listening on ", ""));
    if (urls.length === count) return urls;
  }
  throw new Error("the broker does not start");
}
