// Runs the published tests of `mqtt-packet` on this package. The number of assertions that hold is a minimum, and those that do not hold
// are listed with the reason.

import assert from "node:assert/strict";
import { deepEqual } from "node:assert";
import Module, { createRequire } from "node:module";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";

/** The number of assertions that hold. `npm test` fails with fewer; if there are more, raise it. */
const FLOOR = 518;

/** The tests with a failing assertion, by the difference that causes it. */
const OTHERWISE: Record<string, readonly string[]> = {
  "MQTT has no version 4 under the name of 3.1, not even for a bridge": [
    "connect MQTT bridge 132 parse",
    "connect MQTT bridge 132 generate",
    "connect MQTT bridge 132 mirror",
    "connect MQTT bridge 132 writeToStream",
  ],
  "a CONNACK of 5.0 has a property length, and a success in the form of 3.1.1 is none for a client of 5.0": [
    "Version 5 CONNACK test 1",
    "Version 5 CONNACK test 2",
  ],
  "the Maximum QoS of a CONNACK is 0 or 1": [
    "connack MQTT 5 with properties parse",
    "connack MQTT 5 with properties generate",
    "connack MQTT 5 with properties mirror",
    "connack MQTT 5 with properties writeToStream",
    "connack MQTT 5 with properties and doubled user properties parse",
    "connack MQTT 5 with properties and doubled user properties generate",
    "connack MQTT 5 with properties and doubled user properties mirror",
    "connack MQTT 5 with properties and doubled user properties writeToStream",
  ],
  "packets are written in their shortest form": [
    "Version 5 DISCONNECT test 3 generate",
    "disconnect MQTT 5 with no properties generate",
    "disconnect MQTT 5 with no properties mirror",
    "puback with reason and no MQTT 5 properties generate",
    "puback with reason and no MQTT 5 properties mirror",
  ],
  "a packet is one write, where it counts nine": ["support cork"],
  "the error is there and has another text": [
    "Length var byte integer over max allowed value throws error",
    "MQTT 5.0 var byte integer >24 bits throws error",
    "unsubscribe with unsubscriptions as an object",
    "unsubscribe with unsubscriptions not an array",
  ],
};

const require = createRequire(import.meta.url);

interface Outcome {
  name: string;
  passed: number;
  failed: string[];
  /** Errors that are expected, but with another text. */
  otherTexts: number;
}

type Body = (t: Asserter) => void;

/** The part of `tape` that those tests use. */
class Asserter {
  readonly outcome: Outcome;
  private planned: number | null = null;

  constructor(name: string) {
    this.outcome = { name, passed: 0, failed: [], otherTexts: 0 };
  }

  plan(count: number): void {
    this.planned = count;
  }

  /** No more assertions follow. */
  close(): void {
    const { passed, failed, otherTexts } = this.outcome;
    const made = passed + failed.length + otherTexts;
    if (this.planned !== null && made !== this.planned) failed.push(`${made} assertions in place of ${this.planned}`);
  }

  private check(holds: boolean, message: string): void {
    if (holds) this.outcome.passed++;
    else this.outcome.failed.push(message);
  }

  equal(got: unknown, expected: unknown, message?: string): void {
    const { name } = this.outcome;
    const isText = typeof got === "string" && typeof expected === "string" && [got, expected].some((one) => name.startsWith(one));
    if (isText && got !== expected && got !== "" && expected !== "") this.outcome.otherTexts++;
    else this.check(got === expected, message ?? `${String(got)} in place of ${String(expected)}`);
  }

  deepEqual(got: unknown, expected: unknown, message = "deepEqual"): void {
    this.check(isDeepStrictEqual(got, expected), message);
  }

  deepLooseEqual(got: unknown, expected: unknown, message = "deepLooseEqual"): void {
    try {
      deepEqual(got, expected);
      this.check(true, message);
    } catch {
      this.check(false, message);
    }
  }

  ok(value: unknown, message = "ok"): void {
    this.check(Boolean(value), message);
  }

  true(value: unknown, message = "true"): void {
    this.ok(value, message);
  }

  false(value: unknown, message = "false"): void {
    this.ok(!value, message);
  }

  pass(): void {
    this.check(true, "");
  }

  fail(reason: unknown): void {
    this.check(false, String(reason));
  }

  end(): void {
    // The end of the turn reports it, too.
  }

  comment(): void {
    // Only for people.
  }
}

/** Runs the tests with `library` instead of `mqtt-packet`. */
async function outcomes(library: unknown): Promise<Outcome[]> {
  const path = require.resolve("mqtt-packet/test.js");
  const tests: [name: string, body: Body][] = [];
  const internals = Module as unknown as { _load: (request: string, parent?: { filename?: string } | null, ...rest: unknown[]) => unknown };
  const original = internals._load;
  internals._load = function (this: unknown, request, parent, ...rest) {
    if (parent?.filename !== path) return original.call(this, request, parent, ...rest);
    if (request === "tape") return (name: string, body: Body) => tests.push([name, body]);
    return request === "./" ? library : original.call(this, request, parent, ...rest);
  };
  try {
    Reflect.deleteProperty(require.cache, path);
    require(path);
  } finally {
    internals._load = original;
  }
  const found: Outcome[] = [];
  for (const [name, body] of tests) {
    const t = new Asserter(name);
    try {
      body(t);
    } catch (error) {
      t.fail(error);
    }
    // Streams need some turns to emit everything.
    for (let turn = 0; turn < 5; turn++) await new Promise((done) => setImmediate(done));
    t.close();
    found.push(t.outcome);
  }
  return found;
}

const count = (all: Outcome[], of: (one: Outcome) => number): number => all.reduce((sum, one) => sum + of(one), 0);

test("every assertion holds for mqtt-packet itself", async () => {
  const all = await outcomes(require("mqtt-packet"));
  assert.deepEqual(all.filter(({ failed }) => failed.length > 0), []);
  assert.ok(count(all, ({ passed }) => passed) > 600);
});

test("the assertions that do not hold for this package are listed", async (t) => {
  const all = await outcomes(require("@tautwire/mqtt-codec/mqtt-packet"));
  const passed = count(all, (one) => one.passed);
  t.diagnostic(`${passed} assertions hold, and ${count(all, (one) => one.otherTexts)} more errors have another text`);
  const failing = all.filter(({ failed }) => failed.length > 0);
  const names = [...new Set(failing.map(({ name }) => name))].sort();
  assert.deepEqual(names, Object.values(OTHERWISE).flat().sort(), JSON.stringify(failing, null, 1));
  assert.ok(passed >= FLOOR, `${passed} assertions hold, ${FLOOR} did`);
});
