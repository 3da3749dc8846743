// A real cluster of three brokers, and the responses of the first one. tools/cluster starts the brokers and nats-server.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { resolve } from "node:path";
import { BINARY, answerOf, until } from "./scenario.mjs";

export const NATS_SERVER = process.env.TAUTWIRE_NATS_SERVER;
const TOOL = fileURLToPath(new URL("../../../../tools/cluster", import.meta.url));
const BROKERS = 3;

/** The responses of a cluster node, by method and path. */
export async function clusterAnswers(normalised) {
  const cluster = await Cluster.start();
  try {
    const answers = {};
    const ask = async (method, path, name = path) => (answers[`${method} ${name}`] = normalised(await cluster.ask(method, path)));
    const shows = (holds, what) => until(async () => holds((await cluster.ask("GET", "/v1/cluster")).body), what);
    await shows(({ serving, nodes }) => serving && nodes.length === BROKERS, "the node serves clients and knows the others");
    await ask("GET", "/v1/cluster", "/v1/cluster (joined)");
    await ask("GET", "/v1/clients/nobody/why?topic=power/1/kwh", "/v1/clients/nobody/why?topic=power/1/kwh (another node)");
    await ask("POST", "/v1/cluster/rebalance");
    await ask("POST", "/v1/cluster/drain?node=broker-9");
    await ask("POST", "/v1/cluster/drain?node=broker-2");
    cluster.killServer();
    await shows(({ nats, serving }) => nats.state === "waiting" && !serving, "the node has lost NATS");
    await ask("GET", "/v1/cluster", "/v1/cluster (without NATS)");
    return answers;
  } finally {
    await cluster.stop();
  }
}

class Cluster {
  #tool;
  #processes;

  static async start() {
    const cluster = new Cluster();
    cluster.#tool = spawn(process.env.PYTHON ?? "python3", ["-B", TOOL, "--describe", "--servers", "1", "--brokers", String(BROKERS)], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, TAUTWIRE: resolve(BINARY) },
    });
    let text = "";
    for await (const chunk of cluster.#tool.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
      text += chunk;
      if (text.endsWith("\n")) break;
    }
    assert.ok(text.endsWith("\n"), "the cluster does not start");
    cluster.#processes = JSON.parse(text);
    return cluster;
  }

  ask(method, path) {
    const { admin, token } = this.#processes.brokers[0];
    return answerOf(`http://${admin}${path}`, token, method);
  }

  killServer() {
    process.kill(this.#processes.servers[0].pid, "SIGKILL");
  }

  async stop() {
    const ended = once(this.#tool, "exit");
    this.#tool.kill();
    if (this.#tool.exitCode === null) await ended;
  }
}
