/**
 * An MQTT client for Node.js, Deno and Bun: `mqtt://`, `mqtts://`, `ws://` and `wss://`.
 *
 * @packageDocumentation
 */

import { connectOn, createOn, type Connect, type CreateClient } from "./client/open.js";
import { checkNames } from "./client/options.js";
import type { Platform } from "./client/platform.js";
import { MqttError } from "./errors.js";
import { nodeWebSocket } from "./transport/node-web-socket.js";
import { isSecure, tcp } from "./transport/tcp.js";
import "./with-texts.js";

export * from "./index.js";

/** The names of all {@link TlsOptions}. */
const TLS_NAMES = "ca crl cert key passphrase servername rejectUnauthorized alpnProtocols";

const node: Platform = {
  transports: { "mqtt:": tcp, "mqtts:": tcp, "ws:": nodeWebSocket, "wss:": nodeWebSocket },
  checkAddress(url, { tls }) {
    const { protocol, pathname, search, hash } = url;
    checkNames(tls, TLS_NAMES);
    // Ignoring them would leave a connection unencrypted that the program believes to be secure.
    if (Object.values(tls ?? {}).some((value) => value !== undefined) && !isSecure(url)) {
      throw new MqttError("invalid_options", `tls needs an mqtts:// or wss:// address, and the address begins with ${protocol}//`);
    }
    if (!protocol.startsWith("ws") && !/^\/?$/.test(pathname + search + hash)) {
      throw new MqttError("invalid_options", "only ws:// and wss:// addresses have a path");
    }
  },
  defer: (callback) => {
    setImmediate(callback);
  },
  onWake: () => () => undefined,
};

export const connect: Connect = /* @__PURE__ */ connectOn(node);
export const createClient: CreateClient = /* @__PURE__ */ createOn(node);
