// Runs Aedes on a port that the kernel picks, printed in the line `listening on mqtt://HOST:PORT`.

import { createServer } from "node:net";
import { Aedes } from "aedes";

const broker = await Aedes.createBroker();
const server = createServer(broker.handle);
server.listen(0, "127.0.0.1", () => {
  const { address, port } = server.address();
  console.log(`listening on mqtt://${address}:${port}`);
});
