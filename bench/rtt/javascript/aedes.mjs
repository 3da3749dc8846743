// Aedes as in the interoperability tests, but with TCP_NODELAY like the other brokers.

import { createRequire } from "node:module";
import { createServer } from "node:net";
import { pathToFileURL } from "node:url";

const installed = createRequire(new URL("../../../tests/interop/brokers/aedes/", import.meta.url));
const { Aedes } = await import(pathToFileURL(installed.resolve("aedes")));
const broker = await Aedes.createBroker();
const server = createServer({ noDelay: true }, broker.handle);
server.listen(0, "127.0.0.1", () => {
  const { address, port } = server.address();
  console.log(`listening on mqtt://${address}:${port}`);
});
