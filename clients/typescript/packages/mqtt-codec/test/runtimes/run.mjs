// Runs the vectors in other runtimes, which npm downloads (about 250 MB) into a folder of its own.

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const VERSIONS = { bun: "1.4.4", deno: "2.9.6", node: "18.20.8" };

const folder = join(tmpdir(), "tautwire-runtimes");
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, dependencies: VERSIONS }));
execFileSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: folder, stdio: "inherit" });

const vectors = fileURLToPath(new URL("vectors.mjs", import.meta.url));
for (const name of Object.keys(VERSIONS)) {
  const program = join(folder, "node_modules", ".bin", name);
  execFileSync(program, name === "deno" ? ["run", "--allow-all", vectors] : [vectors], { stdio: "inherit" });
}
