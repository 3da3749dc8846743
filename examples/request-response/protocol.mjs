// Definitions shared by both ends.

import { json } from "@tautwire/client";

export const url = process.env["TAUTWIRE_URL"] ?? "mqtt://127.0.0.1:1883";

/** @typedef {{ celsius: number }} Target */
/** @typedef {{ celsius: number, minutes: number }} Plan the time until the target is reached */

/** Decodes a request. Anybody can publish anything, so it is validated. */
export const targetCodec = json((value) => {
  const { celsius } = /** @type {Partial<Target>} */ (value ?? {});
  if (typeof celsius !== "number") throw new TypeError("not a target: { celsius }");
  return /** @type {Target} */ ({ celsius });
});

/** @type {import("@tautwire/client").PayloadCodec<Plan>} */
export const planCodec = json();
