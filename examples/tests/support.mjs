// Runs the commands of the READMEs, as a reader would paste them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { within } from "../../clients/typescript/packages/client/dist/test/support/waiting.js";

export const root = fileURLToPath(new URL("../../", import.meta.url));
/** Loads a tool of the TypeScript workspace. */
export const toolOf = createRequire(`${root}clients/typescript/package.json`);

export function readme(example) {
  return readFileSync(`${root}examples/${example}/README.md`, "utf8");
}

/** Returns the fenced blocks of a language. */
export function blocks(markdown, language) {
  return [...markdown.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map((match) => match[1]);
}

/** Returns the only line of a README that runs this. */
export function command(example, part) {
  const lines = blocks(readme(example), "sh").flatMap((block) => block.trimEnd().split("\n"));
  const found = lines.filter((line) => line.includes(part));
  assert.ok(found.length > 0, `no line of the README of ${example} runs ${part}`);
  return found[0];
}

/** A program started by a line of a README, in the root of the repository. */
export class Program {
  output = "";
  #look = () => undefined;

  constructor(line, environment = {}) {
    this.line = line;
    this.process = spawn("/bin/sh", ["-c", `exec ${line}`], { cwd: root, env: { ...process.env, ...environment } });
    this.ended = once(this.process, "exit");
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk) => {
        this.output += chunk;
        this.#look();
      });
    }
    this.process.once("exit", () => this.#look());
  }

  /** Waits until the program has printed this, and returns the match. */
  async printed(pattern) {
    const found = new Promise((resolve, reject) => {
      this.#look = () => {
        const match = pattern.exec(this.output);
        if (match !== null) resolve(match);
        else if (this.process.exitCode !== null) reject(new Error(`\`${this.line}\` has ended: ${this.output}`));
      };
      this.#look();
    });
    return within(found, `${pattern} from \`${this.line}\``);
  }

  /** Waits until the program has ended by itself, and returns its exit code. */
  async end() {
    const [code] = await within(this.ended, `end of \`${this.line}\``);
    return code;
  }

  async stop(signal = "SIGTERM") {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    return this.end();
  }
}
