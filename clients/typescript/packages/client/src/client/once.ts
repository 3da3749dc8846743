import { MqttError } from "../errors.js";
import type { Client } from "./client.js";
import type { Message } from "./message.js";
import { systemClock } from "./options.js";
import { handled } from "./promises.js";
import type { SubscribeOptions } from "./subscription.js";

/** How one message is waited for. */
export interface OnceOptions<T = unknown> extends SubscribeOptions<T> {
  /** How long to wait for it, in milliseconds. Default: no limit. */
  timeoutMs?: number | undefined;
}

/**
 * The first message that comes to a topic filter, or to one of several. A retained message counts, unless `retainHandling` is 2. The
 * subscription ends with it.
 *
 * Rejects with {@link MqttError}: `canceled` by the signal or because the time is over, `subscribe_refused`, `closed`.
 *
 * @throws {MqttError} As `subscribe`.
 */
export function once<T = unknown>(
  client: Client,
  filter: string | readonly string[],
  { timeoutMs, signal, ...options }: OnceOptions<T> = {},
): Promise<Message<T>> {
  const clock = client.options.clock ?? systemClock;
  const ending = new AbortController();
  const subscription = client.subscribe<T>(filter, { ...options, signal: ending.signal });
  const loop = subscription[Symbol.asyncIterator]();
  const onAbort = () => {
    ending.abort(signal?.reason);
  };
  const onTimeout = () => {
    ending.abort(new Error(`no message within ${timeoutMs!} ms`));
  };
  const timer = timeoutMs === undefined ? undefined : clock.setTimeout(onTimeout, timeoutMs);
  signal?.addEventListener("abort", onAbort);
  if (signal?.aborted === true) onAbort();

  const first = async () => {
    try {
      const next = await loop.next();
      if (next.done === true) throw new MqttError("closed");
      return next.value;
    } finally {
      clock.clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      void loop.return?.();
      // Also where leaving the loop does not end it.
      subscription.drop();
    }
  };
  return handled(first());
}
