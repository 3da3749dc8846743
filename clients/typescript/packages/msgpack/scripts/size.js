// Checks size budgets: parts of the package, bundled, minified and gzipped.
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

async function gzippedBytes(contents) {
  const result = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL("..", import.meta.url)), loader: "js" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
  });
  return gzipSync(result.outputFiles[0].contents, { level: 9 }).length;
}

const entry = "./dist/esm/index.js";
for (const [what, names, budgetBytes] of [
  ["encode alone", "{ encode }", 5.75 * 1024],
  ["decode alone", "{ decode }", 6.75 * 1024],
  ["everything", "*", 11 * 1024],
]) {
  const bytes = await gzippedBytes(`export ${names} from "${entry}";`);
  console.log(`size: ${what} ${bytes} B gzipped, budget ${budgetBytes} B`);
  if (bytes > budgetBytes) process.exitCode = 1;
}
