// Servers for the three transports, on ports that the kernel chooses.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer, type AddressInfo, type Server } from "node:net";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer } from "node:tls";
import { createWebSocketStream, WebSocketServer } from "ws";

export const TRANSPORTS = ["mqtt", "ws", "mqtts"] as const;

const fixture = (name: string): Buffer => readFileSync(new URL(`../../../../client/test/fixtures/test-only-${name}.pem`, import.meta.url));

/** The certificate for 127.0.0.1. */
export const certificate = fixture("certificate");

export interface Servers {
  urls: Record<(typeof TRANSPORTS)[number], string>;
  close(): Promise<void>;
}

/** Listens on all three transports. `handle` gets the stream of each connection. */
export async function serve(handle: (stream: Duplex) => void): Promise<Servers> {
  const streams = new Set<Duplex>();
  const take = (stream: Duplex): void => {
    streams.add(stream);
    stream.once("close", () => streams.delete(stream));
    // Errors of a stream whose client disconnects are not relevant here.
    stream.on("error", () => undefined);
    handle(stream);
  };
  const tcp = createServer(take);
  const tls = createTlsServer({ cert: certificate, key: fixture("key") }, take);
  const http = createHttpServer();
  const webSocket = new WebSocketServer({ server: http });
  webSocket.on("connection", (socket) => {
    take(createWebSocketStream(socket));
  });
  const [mqtt, mqtts, ws] = await Promise.all([tcp, tls, http].map(listen));
  return {
    urls: { mqtt: `mqtt://${mqtt!}`, mqtts: `mqtts://${mqtts!}`, ws: `ws://${ws!}` },
    async close() {
      for (const stream of streams) stream.destroy();
      for (const client of webSocket.clients) client.terminate();
      webSocket.close();
      await Promise.all([tcp, tls, http].map((server) => new Promise((done) => server.close(done))));
    },
  };
}

async function listen(server: Server | HttpServer): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
