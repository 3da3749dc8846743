// Checks the size of this package and its codec, bundled for browsers, minified and gzipped, against its budget in bytes.

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const BUDGETS = [
  ["client", 'export { connect } from "@tautwire/client";', 24_450],
  ["client, everything", 'export * from "@tautwire/client";', 26_900],
];

let isOver = false;
for (const [title, contents, budget] of BUDGETS) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL("..", import.meta.url)) },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
  });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`${title}: ${size} bytes with gzip, budget ${budget}`);
  isOver ||= size > budget;
}
process.exitCode = isOver ? 1 : 0;
