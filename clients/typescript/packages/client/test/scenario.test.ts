import assert from "node:assert/strict";
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { noBroker, RealBroker } from "./support/real-broker.js";
import { within } from "./support/waiting.js";

const program = fileURLToPath(new URL("../../scenario/agent.mjs", import.meta.url));

const agents = new Set<Agent>();

afterEach(() => {
  for (const agent of agents) agent.kill();
  agents.clear();
});

class Agent {
  private readonly process: ChildProcessWithoutNullStreams;
  private readonly lines: AsyncIterator<string>;

  constructor(address: string) {
    this.process = spawn(process.execPath, [program, address]);
    agents.add(this);
    this.process.stderr.pipe(process.stderr);
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  /** Sends a command, and checks the agent's output. */
  async does(command: string, ...expected: string[]): Promise<void> {
    this.process.stdin.write(`${command}\n`);
    await this.prints(...expected);
  }

  async prints(...expected: string[]): Promise<void> {
    for (const line of expected) {
      const next = await within(this.lines.next(), line);
      assert.equal(next.value, line);
    }
  }

  kill(): void {
    this.process.kill("SIGKILL");
  }

  async ends(): Promise<void> {
    const exit = once(this.process, "exit");
    this.process.stdin.end();
    assert.deepEqual(await within(exit, "end of the agent"), [0, null]);
  }
}

describe("the agent of the scenarios", { skip: noBroker }, () => {
  test("runs commands and prints events", async (context) => {
    const broker = await RealBroker.start();
    context.after(() => broker.stop());
    const [one, two] = [new Agent(broker.url), new Agent(broker.url)];
    await one.does("connect client=one", "connected 0");
    await one.does("subscribe 2 a/+", "subscribed a/+ 2");
    await one.does("subscribe 0 a/+", "subscribed a/+ 2");
    await one.does("unsubscribe a/+", "unsubscribed a/+");
    await one.does("publish 1 a/b two words", "message a/b 1 0 two words", "published two words 0x00");
    await one.does("publish 1 c nobody", "published nobody 0x10");
    await one.does("publish 1 # wrong", "failed publish invalid_argument wrong");
    await one.does("respond echo echo", "subscribed echo 2");
    await one.does("respond failure failure not today", "subscribed failure 2");
    await one.does("respond crash crash secret", "subscribed crash 2");
    await two.does("start client=two", "connected 0");
    await two.does("request 1 echo hello there", "response hello there");
    await two.does("request 1 failure x", "failed request request_failed not today");
    await two.does("request 1 crash x", "failed request request_failed the responder failed");
    await two.does("request 1 nobody x", "failed request no_responder 0x10");
    await two.does("close", "closed");
    await two.ends();
    const hasty = new Agent(broker.url);
    await hasty.does("connect timeout_ms=50", "connected 0");
    await hasty.does("request 0 nobody x", "failed request request_timeout");
    await hasty.ends();
    const thief = new Agent(broker.url);
    await thief.does("connect client=one", "connected 0");
    await one.prints("ended session_taken_over 0x8e");
    await one.ends();
    await broker.stop();
    await thief.prints("disconnected connection_lost");
    await thief.ends();
  });

  test("prints why it has no connection", async () => {
    const agent = new Agent("mqtt://127.0.0.1:1");
    await agent.does("connect", "failed connect unreachable");
    await agent.does("start attempts_ms=10", "attempt unreachable", "attempt unreachable");
    await agent.ends();
  });
});
