import type { Transport, TransportEvents } from "./transport.js";

/** The interval at which the send buffer is polled, in milliseconds, because the platform has no drain event. */
const DRAIN_POLL_MS = 20;
/** With at most this many buffered bytes, the send buffer counts as drained. */
const DRAINED_BYTES = 64 * 1024;

/** MQTT over the platform's own WebSocket (section 6), in browsers and edge workers. */
export function webSocket(url: URL, events: TransportEvents): Transport {
  // [MQTT-6.0.0-3]
  const socket = new WebSocket(url, "mqtt");
  socket.binaryType = "arraybuffer";
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;

  const close = (error?: unknown) => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
    events.onClose(error);
  };
  const poll = () => {
    timer = undefined;
    if (socket.bufferedAmount <= DRAINED_BYTES) events.onDrain();
    else timer = setTimeout(poll, DRAIN_POLL_MS);
  };

  socket.onopen = () => {
    events.onOpen();
  };
  socket.onmessage = ({ data }: { data: unknown }) => {
    if (data instanceof ArrayBuffer) {
      events.onData(new Uint8Array(data));
    } else {
      // [MQTT-6.0.0-1]
      socket.close();
      close(new Error("a WebSocket frame is not binary"));
    }
  };
  // The platform does not report the cause.
  let failure: Error | undefined;
  socket.onerror = () => {
    failure = new Error("the WebSocket failed");
  };
  socket.onclose = ({ code }) => {
    close(failure ?? (code === 1000 || code === 1005 ? undefined : new Error(`WebSocket closed with code ${code}`)));
  };

  return {
    send(bytes) {
      socket.send(bytes as Uint8Array<ArrayBuffer>);
      if (socket.bufferedAmount > DRAINED_BYTES) timer ??= setTimeout(poll, DRAIN_POLL_MS);
      return true;
    },
    get bufferedBytes() {
      return socket.bufferedAmount;
    },
    end() {
      socket.close(1000);
    },
    destroy() {
      socket.close();
      close();
    },
  };
}
