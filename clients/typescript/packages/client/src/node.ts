/**
 * An MQTT client for Node.js, Deno and Bun: `mqtt://`, `mqtts://`, `ws://` and `wss://`.
 *
 * @packageDocumentation
 */

import { connectOn, createOn, type Connect, type CreateClient } from "./client/open.js";
import type { Platform } from "./client/platform.js";
import { MqttError } from "./errors.js";
import { nodeWebSocket } from "./transport/node-web-socket.js";
import { tcp } from "./transport/tcp.js";
import "./with-texts.js";

export * from "./index.js";

const node: Platform = {
  transports: { "mqtt:": tcp, "mqtts:": tcp, "ws:": nodeWebSocket, "wss:": nodeWebSocket },
  checkAddress({ protocol, pathname, search, hash }) {
    if (!protocol.startsWith("ws") && !/^\/?$/.test(pathname + search + hash)) {
      throw new MqttError("invalid_options", "a path is for ws and wss");
    }
  },
  defer: (callback) => {
    setImmediate(callback);
  },
  onWake: () => () => undefined,
};

export const connect: Connect = /* @__PURE__ */ connectOn(node);
export const createClient: CreateClient = /* @__PURE__ */ createOn(node);
