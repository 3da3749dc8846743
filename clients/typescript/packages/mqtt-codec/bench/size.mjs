// The size of what a bundler makes of this package, minified and with gzip, against its budget in bytes.

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const BUDGETS = [
  ["decoder and encoder", "MqttDecoder, encode, encodeInto, encodedLength, encodePublishHeader", 10_700],
  ["decoder", "MqttDecoder", 7_000],
  ["encoder", "encode", 5_000],
];

let isOver = false;
for (const [title, names, budget] of BUDGETS) {
  const { outputFiles } = await build({
    stdin: {
      contents: `export { ${names} } from "@tautwire/mqtt-codec";`,
      resolveDir: fileURLToPath(new URL("..", import.meta.url)),
    },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
  });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`${title}: ${size} bytes with gzip, budget ${budget}`);
  isOver ||= size > budget;
}
process.exitCode = isOver ? 1 : 0;
