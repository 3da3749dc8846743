// Chromium as users run it: background tabs are hidden, and their timers throttled.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--remote-debugging-port=0",
];
const START_MS = 30_000;
const INTERRUPTS = ["SIGINT", "SIGTERM"];

/**
 * Starts the browser. The library does not start it, because its settings would treat every tab as visible, with timers at full
 * speed. `authority`: the file of a certificate to trust.
 */
export async function startChromium(flags = [], { authority } = {}) {
  assert.ok(existsSync(CHROMIUM), `there is no ${CHROMIUM}: run \`apt-get install -y chromium\`, or set CHROMIUM to its path`);
  const profile = mkdtempSync(join(tmpdir(), "tautwire-chromium-"));
  const args = [...FLAGS, ...flags, `--user-data-dir=${profile}`, "about:blank"];
  // In a process group, because it has many processes.
  const env = authority === undefined ? process.env : { ...process.env, HOME: homeThatTrusts(authority, profile) };
  const child = spawn(CHROMIUM, args, { stdio: ["ignore", "ignore", "pipe"], detached: true, env });
  const exited = once(child, "exit");
  const signal = (name) => process.kill(-child.pid, name);
  const kill = () => signal("SIGKILL");
  const onInterrupt = () => process.exit(1);
  process.once("exit", kill);
  for (const name of INTERRUPTS) process.once(name, onInterrupt);
  const stop = async () => {
    process.off("exit", kill);
    for (const name of INTERRUPTS) process.off(name, onInterrupt);
    kill();
    await exited;
    // Its child processes may write for a moment longer.
    rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  };
  try {
    const browser = await chromium.connectOverCDP(await debuggingUrl(child), { noDefaults: true });
    const context = browser.contexts()[0];
    return {
      context,
      /** Stops all of its processes, like a suspended machine, or continues them. */
      setAsleep: (isAsleep) => signal(isAsleep ? "SIGSTOP" : "SIGCONT"),
      async stop() {
        await stop();
        await browser.close();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Creates a home directory with a certificate store that trusts this authority. */
function homeThatTrusts(authority, profile) {
  const store = join(profile, "home", ".pki", "nssdb");
  mkdirSync(store, { recursive: true });
  for (const words of [["-N", "--empty-password"], ["-A", "-t", "C,,", "-n", "tautwire", "-i", authority]]) {
    const { error, status, stderr } = spawnSync("certutil", ["-d", `sql:${store}`, ...words], { encoding: "utf8" });
    assert.equal(error, undefined, "there is no certutil: run `apt-get install -y libnss3-tools`");
    assert.equal(status, 0, stderr);
  }
  return join(profile, "home");
}

function debuggingUrl(child) {
  let log = "";
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`Chromium says nothing within ${START_MS} ms: ${log}`)), START_MS);
    const settle = (answer, value) => {
      clearTimeout(timer);
      answer(value);
    };
    child.stderr.setEncoding("utf8").on("data", (chunk) => {
      log += chunk;
      const url = /^DevTools listening on (ws:\S+)$/m.exec(log)?.[1];
      if (url !== undefined) settle(resolve, url);
    });
    child.once("error", (error) => settle(reject, error));
    child.once("exit", (code) => settle(reject, new Error(`Chromium ended with ${code}: ${log}`)));
  });
}
