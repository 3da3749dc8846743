import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { MqttError } from "../errors.js";
import { explainTls } from "./tls-failure.js";
import type { Transport, TransportEvents, TransportOptions } from "./transport.js";

const DEFAULT_PORTS: Readonly<Record<string, number>> = { "mqtt:": 1883, "mqtts:": 8883, "ws:": 80, "wss:": 443 };

/** Whether a connection to the address uses TLS. */
export const isSecure = ({ protocol }: URL): boolean => protocol === "mqtts:" || protocol === "wss:";

/** Opens a TCP or TLS connection to the host and port of a URL. */
export function openSocket(url: URL, { tls = {} }: TransportOptions): Socket {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? DEFAULT_PORTS[url.protocol]! : Number(url.port);
  if (!isSecure(url)) return connectTcp({ host, port, noDelay: true });
  const { alpnProtocols, servername = isIP(host) === 0 ? host : "", ca, crl, cert, key, ...rest } = tls;
  const settings: ConnectionOptions = {
    host,
    port,
    servername,
    ...(ca !== undefined && { ca: (Array.isArray(ca) ? ca : [ca]).map(pem) }),
    ...(crl !== undefined && { crl: (Array.isArray(crl) ? crl : [crl]).map(pem) }),
    ...(cert !== undefined && { cert: pem(cert) }),
    ...(key !== undefined && { key: pem(key) }),
    ...(alpnProtocols !== undefined && { ALPNProtocols: [...alpnProtocols] }),
    ...rest,
  };
  const socket = connectSecurely(settings);
  socket.setNoDelay(true);
  return socket;
}

function connectSecurely(settings: ConnectionOptions): Socket {
  try {
    return connectTls(settings);
  } catch (error) {
    throw explainTls(error);
  }
}

function pem(text: string | Uint8Array): string | Buffer {
  return typeof text === "string" ? text : Buffer.from(text);
}

/** MQTT over TCP or TLS. */
export function tcp(url: URL, events: TransportEvents, options: TransportOptions): Transport {
  const socket = openSocket(url, options);
  const transport = overSocket(socket, events);
  socket.on(isSecure(url) ? "secureConnect" : "connect", () => {
    events.onOpen();
  });
  socket.on("data", (chunk: Uint8Array) => {
    events.onData(chunk);
  });
  return transport;
}

/** A transport on a socket, without the handling of received bytes, which differs between MQTT and WebSocket. */
export function overSocket(socket: Socket, events: Pick<TransportEvents, "onDrain" | "onClose">): Transport {
  let failure: unknown;
  let isOver = false;
  const close = (error?: unknown) => {
    if (isOver) return;
    isOver = true;
    events.onClose(error);
  };
  socket.on("error", (error) => {
    failure = explain(error);
  });
  socket.on("drain", () => {
    events.onDrain();
  });
  // MQTT has no half-open connections.
  socket.on("end", () => {
    socket.destroy();
  });
  socket.on("close", () => {
    close(failure);
  });
  return {
    send(bytes) {
      socket.write(bytes);
      // If nothing is buffered, the kernel has a copy of the bytes.
      return socket.writableLength === 0;
    },
    get bufferedBytes() {
      return socket.writableLength;
    },
    end() {
      socket.end();
    },
    destroy() {
      socket.destroy();
      close();
    },
    pause() {
      socket.pause();
    },
    resume() {
      socket.resume();
    },
    ref() {
      socket.ref();
    },
    unref() {
      socket.unref();
    },
  };
}

/** Maps errors of name resolution and of TLS to their codes. The connection maps the others, depending on its state. */
function explain(error: NodeJS.ErrnoException): unknown {
  const { code = "" } = error;
  const isName = code === "ENOTFOUND" || code.startsWith("EAI_");
  return isName ? new MqttError("name_not_found", error.message, { cause: error }) : explainTls(error);
}
