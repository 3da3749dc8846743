// Checks the size of this package, bundled, minified and gzipped, against its budget in bytes. Also checks that a bundle with only the
// decoder contains no part of the encoder, and one for clients nothing that only servers need.

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const BUDGETS = [
  {
    title: "for a client",
    names: "{ ClientDecoder, encodeClientInto }",
    from: "/client",
    budget: 7_700,
    without: "/(decode/sent-by-clients|decode/short-ascii|decode/frame|encode/sent-by-servers)",
  },
  { title: "all that is exported", names: "*", budget: 10_210 },
  { title: "decoder and encoder", names: "{ MqttDecoder, encode, encodeInto, encodedLength, encodePublishHeader }", budget: 9_680 },
  { title: "decoder", names: "{ MqttDecoder }", budget: 6_280, without: "/encode/" },
  { title: "encoder", names: "{ encode }", budget: 4_460, without: "/decode/" },
];

let isWrong = false;
for (const { title, names, from = "", budget, without } of BUDGETS) {
  const { outputFiles, metafile } = await build({
    stdin: {
      contents: `export ${names} from "@tautwire/mqtt-codec${from}";`,
      resolveDir: fileURLToPath(new URL("..", import.meta.url)),
    },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
    metafile: true,
  });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  const [{ inputs }] = Object.values(metafile.outputs);
  const strays = Object.keys(inputs).filter((path) => without && new RegExp(without).test(path) && inputs[path].bytesInOutput > 0);
  console.log(`${title}: ${size} bytes with gzip, budget ${budget}${strays.map((path) => `, with ${path}`).join("")}`);
  isWrong ||= size > budget || strays.length > 0;
}
process.exitCode = isWrong ? 1 : 0;
