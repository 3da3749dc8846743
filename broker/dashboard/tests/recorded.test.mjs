// The recordings that the mock server uses match the current broker.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { GENERATED, types } from "../types.mjs";
import { faultsOf } from "./support/description.mjs";
import { NATS_SERVER } from "./support/cluster.mjs";
import { RECORDED, RECORDED_CLUSTER, record, recordCluster, recorded, shapeOf } from "./support/recording.mjs";
import { BINARY } from "./support/scenario.mjs";

test("the types match the description of the admin API", async () => {
  assert.equal(await readFile(GENERATED, "utf8"), await types(), "run `npm run types`");
});

test("recorded responses match the description", async () => {
  const answers = { ...(await recorded(RECORDED)), ...(await recorded(RECORDED_CLUSTER)) };
  for (const [name, { status, body }] of Object.entries(answers)) {
    const [method, path] = name.split(/[ ?]/);
    // Events of the tap are not responses.
    if (path !== "/v1/tap") assert.deepEqual(faultsOf(method, path, status, typeof body === "string" ? undefined : body), [], name);
  }
});

test("the current broker responds with the recorded members and types", { skip: BINARY === undefined && "set TAUTWIRE to a binary" }, async () => {
  assert.deepEqual(shapes(await record()), shapes(await recorded(RECORDED)), "run `npm run record`, and see what has changed");
});

const without = [BINARY, NATS_SERVER].includes(undefined) && "set TAUTWIRE and TAUTWIRE_NATS_SERVER to binaries";

test("the current cluster responds with the recorded members and types", { skip: without }, async () => {
  assert.deepEqual(shapes(await recordCluster()), shapes(await recorded(RECORDED_CLUSTER)), "run `npm run record`, and see what has changed");
});

function shapes(answers) {
  return Object.fromEntries(Object.entries(answers).map(([name, answer]) => [name, shapeOf(answer)]));
}
