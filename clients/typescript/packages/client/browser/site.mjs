// The pages of the tests: one with the client, under a policy that forbids eval, and a worker with the client.

import { once } from "node:events";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const POLICY = "default-src 'self'; img-src data:; connect-src ws://127.0.0.1:* wss://localhost:*; require-trusted-types-for 'script'";
const HTML = '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/client.js"></script>';

/** Serves them on loopback. */
export async function startSite() {
  const client = await bundle("page.mjs");
  const worker = await bundle("worker.mjs");
  const files = {
    "/": ["text/html", HTML],
    "/client.js": ["text/javascript", client],
    "/worker.js": ["text/javascript", worker],
  };
  const server = createServer((request, response) => {
    const [type, body] = files[request.url] ?? ["text/plain", null];
    response.writeHead(body === null ? 404 : 200, { "Content-Type": type, "Content-Security-Policy": POLICY });
    response.end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function bundle(entry) {
  const { outputFiles } = await build({
    entryPoints: [HERE + entry],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
  });
  return outputFiles[0].text;
}
