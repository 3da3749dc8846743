/**
 * An MQTT client for browsers and edge workers: `ws://` and `wss://`.
 *
 * @packageDocumentation
 */

// First, so that a bundle has the modules of the codec next to each other, which compresses better.
export * from "./index.js";

import { connectOn, createOn, type Connect, type CreateClient } from "./client/open.js";
import type { Platform } from "./client/platform.js";
import { webSocket } from "./transport/web-socket.js";

/** The events that tell that a page may have been suspended. Workers have fewer of them. */
interface Page {
  addEventListener?(name: string, listener: () => void): void;
  removeEventListener?(name: string, listener: () => void): void;
  readonly document?: Page & { readonly visibilityState: string };
}

const web: Platform = {
  transports: { "ws:": webSocket, "wss:": webSocket },
  defer: (callback) => {
    queueMicrotask(callback);
  },
  onWake(callback) {
    const page = globalThis as Page;
    const { document } = page;
    const onVisible = () => {
      if (document?.visibilityState === "visible") callback();
    };
    page.addEventListener?.("online", callback);
    page.addEventListener?.("pageshow", callback);
    document?.addEventListener?.("visibilitychange", onVisible);
    return () => {
      page.removeEventListener?.("online", callback);
      page.removeEventListener?.("pageshow", callback);
      document?.removeEventListener?.("visibilitychange", onVisible);
    };
  },
};

export const connect: Connect = /* @__PURE__ */ connectOn(web);
export const createClient: CreateClient = /* @__PURE__ */ createOn(web);
