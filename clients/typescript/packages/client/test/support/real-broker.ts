import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { within } from "./waiting.js";

/** The path of the broker. */
export const binary = process.env["TAUTWIRE_BIN"] ?? fileURLToPath(new URL("../../../../../../../bin/tautwire", import.meta.url));

/** The reason why tests with the broker of this repository cannot run, or false. */
export const noBroker: string | false = existsSync(binary) ? false : "there is no bin/tautwire: run `make build` first";

/** The broker of this repository, on ports that the kernel chooses or on those of an earlier run. */
export class RealBroker {
  private constructor(
    private readonly process: ChildProcess,
    /** The URLs on which it listens. */
    readonly urls: readonly string[],
  ) {}

  /** `dataPath`: its data directory; without one it persists nothing. */
  static async start(
    listen: readonly string[] = ["127.0.0.1:0"],
    settings: readonly string[] = [],
    dataPath?: string,
  ): Promise<RealBroker> {
    const options = [...listen.flatMap((address) => ["--listen", address]), ...settings.flatMap((setting) => ["--set", setting])];
    const place = dataPath === undefined ? ["--memory"] : ["--set", `data.path=${dataPath}`];
    const child = spawn(binary, ["serve", ...place, ...options], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let log = "";
    child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
    let output = "";
    const urls = new Promise<string[]>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => {
        output += chunk.toString();
        const found = [...output.matchAll(/^listening on (\S+)$/gm)].map((match) => match[1]!);
        if (found.length === listen.length) resolve(found);
      });
      child.once("exit", (code) => {
        reject(new Error(`the broker ended with ${code}: ${log}`));
      });
    });
    return new RealBroker(child, await within(urls, "broker"));
  }

  get url(): string {
    return this.urls[0]!;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  async stop(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill(signal);
    await within(ended, "end of the broker");
  }
}
