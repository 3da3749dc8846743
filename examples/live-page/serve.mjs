// Bundles the page and serves it: node serve.mjs, or writes it to dist/ for any web server: node serve.mjs --build
// HOST and PORT set the address; the default is http://127.0.0.1:8080.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const { HOST = "127.0.0.1", PORT = "8080" } = process.env;
// The page works under a strict policy; brokers can be on any host.
const POLICY = "default-src 'self'; img-src data:; connect-src ws: wss:";

const { outputFiles } = await build({
  entryPoints: [`${here}page.js`],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  write: false,
});
/** @type {Map<string, { name: string, type: string, body: Uint8Array }>} */
const files = new Map([
  ["/", { name: "index.html", type: "text/html", body: await readFile(`${here}index.html`) }],
  ["/style.css", { name: "style.css", type: "text/css", body: await readFile(`${here}style.css`) }],
  ["/page.js", { name: "page.js", type: "text/javascript", body: outputFiles[0]?.contents ?? new Uint8Array() }],
]);

if (process.argv.includes("--build")) {
  await mkdir(`${here}dist`, { recursive: true });
  for (const { name, body } of files.values()) await writeFile(`${here}dist/${name}`, body);
} else {
  serve();
}

function serve() {
  const server = createServer((request, response) => {
    const file = files.get(new URL(request.url ?? "/", "http://localhost").pathname);
    response.setHeader("Content-Security-Policy", POLICY);
    if (file === undefined) response.writeHead(404).end();
    else response.setHeader("Content-Type", `${file.type}; charset=utf-8`).end(file.body);
  });
  server.listen(Number(PORT), HOST, () => {
    const address = server.address();
    if (typeof address === "object") console.log(`open http://${HOST}:${address?.port}/`);
  });
}
