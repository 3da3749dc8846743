// Writes the recordings that the mock server uses: `TAUTWIRE=PROGRAM TAUTWIRE_NATS_SERVER=PROGRAM npm run record`.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { NATS_SERVER } from "./support/cluster.mjs";
import { RECORDED, RECORDED_CLUSTER, record, recordCluster } from "./support/recording.mjs";

assert.ok(NATS_SERVER !== undefined, "set TAUTWIRE_NATS_SERVER to a nats-server: `make` builds the one in target/nats-server-*");
await mkdir(new URL(".", RECORDED), { recursive: true });
await write(RECORDED, await record());
await write(RECORDED_CLUSTER, await recordCluster());

async function write(file, answers) {
  await writeFile(file, `${JSON.stringify(answers, null, 2)}\n`);
}
