// Responses of a real broker (`npm run record`), and values derived from them.

import assert from "node:assert/strict";
import { RECORDED, RECORDED_CLUSTER, recorded } from "../support/recording.mjs";

const ANSWERS = { ...(await recorded(RECORDED)), ...(await recorded(RECORDED_CLUSTER)) };

/** The body of a recorded response, by method and path. */
export function body(name) {
  return structuredClone(found(name).body);
}

/** The same with its status, as a route returns it. */
export function answer(name) {
  const { status, body: recordedBody } = found(name);
  return { status, body: structuredClone(recordedBody) };
}

function found(name) {
  assert.ok(name in ANSWERS, `nothing is recorded of ${name}; see tests/support/recording.mjs`);
  return ANSWERS[name];
}

/** A recorded object with other values: members that it does not have cannot be set. */
export function like(template, changes) {
  for (const name in changes) {
    if (!(name in template)) assert.fail(`the broker's answer has no ${name}, but ${Object.keys(template).join(", ")}`);
  }
  return { ...template, ...changes };
}
