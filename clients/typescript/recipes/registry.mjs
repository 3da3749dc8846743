// A local registry with the packages of this workspace as packed by npm, so that recipes run before anything is published.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const NAMES = ["mqtt-codec", "mqtt-packet"];

/** Serves the packages, packed into `folder`. */
export async function serveRegistry(folder) {
  const packages = new Map();
  const tarballs = new Map();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url);
    const body = tarballs.get(path) ?? packages.get(path);
    const type = tarballs.has(path) ? "application/octet-stream" : "application/json";
    response.writeHead(body === undefined ? 404 : 200, { "content-type": type });
    response.end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}`;
  for (const name of NAMES) {
    const cwd = fileURLToPath(new URL(`../packages/${name}`, import.meta.url));
    const [{ filename }] = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", folder], { cwd, encoding: "utf8" }));
    const bytes = readFileSync(join(folder, filename));
    const manifest = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"));
    const hash = (kind, form) => createHash(kind).update(bytes).digest(form);
    const dist = {
      tarball: `${url}/tarballs/${filename}`,
      integrity: `sha512-${hash("sha512", "base64")}`,
      shasum: hash("sha1", "hex"),
    };
    const { version } = manifest;
    const document = {
      name: manifest.name,
      "dist-tags": { latest: version },
      versions: { [version]: { ...manifest, dist } },
      // Yarn delays new versions by some days.
      time: { [version]: "2020-01-01T00:00:00.000Z" },
    };
    packages.set(`/${manifest.name}`, JSON.stringify(document));
    tarballs.set(`/tarballs/${filename}`, bytes);
  }
  return {
    url,
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
