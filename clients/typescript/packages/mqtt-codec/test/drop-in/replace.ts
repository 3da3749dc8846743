// Makes Aedes, MQTT.js or both use this package instead of `mqtt-packet`.

import Module, { createRequire, register } from "node:module";

const require = createRequire(import.meta.url);
const ours = {
  esm: import.meta.resolve("@tautwire/mqtt-codec/mqtt-packet"),
  cjs: require.resolve("@tautwire/mqtt-codec/mqtt-packet"),
};

/** Must be called before they are loaded. */
export function replace({ aedes, mqtt }: { aedes: boolean; mqtt: boolean }): void {
  if (aedes) replaceInImportsOf("/node_modules/aedes/");
  if (mqtt) replaceInRequiresOf("/node_modules/mqtt/");
}

function replaceInImportsOf(folder: string): void {
  const hook = `export const resolve = (name, context, next) =>
    name === "mqtt-packet" && context.parentURL?.includes(${JSON.stringify(folder)})
      ? { url: ${JSON.stringify(ours.esm)}, shortCircuit: true }
      : next(name, context);`;
  register(`data:text/javascript,${encodeURIComponent(hook)}`);
}

type Resolve = (request: string, parent?: { filename?: string } | null, ...rest: unknown[]) => string;

function replaceInRequiresOf(folder: string): void {
  const internals = Module as unknown as { _resolveFilename: Resolve };
  const original = internals._resolveFilename;
  internals._resolveFilename = function (this: unknown, request, parent, ...rest) {
    const isTheirs = request === "mqtt-packet" && parent?.filename?.includes(folder);
    return isTheirs ? ours.cjs : original.call(this, request, parent, ...rest);
  };
}

/** The packages loaded by `require`: this one, and `mqtt-packet` itself. */
export function required(): { ours: boolean; theirs: boolean } {
  const names = Object.keys(require.cache);
  return { ours: names.includes(ours.cjs), theirs: names.some((name) => name.includes("/node_modules/mqtt-packet/")) };
}
