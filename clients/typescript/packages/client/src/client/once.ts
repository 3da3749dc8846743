import { MqttError } from "../errors.js";
import type { Client } from "./client.js";
import type { Message } from "./message.js";
import { systemClock } from "./options.js";
import { handled } from "./promises.js";
import type { SubscribeOptions } from "./subscription.js";

/** Options of {@link once}. */
export interface OnceOptions<T = unknown> extends SubscribeOptions<T> {
  /** How long to wait for the message, in milliseconds. Default: no limit. */
  timeoutMs?: number | undefined;
}

/**
 * Resolves with the first message on a topic filter, or on one of several. A retained message counts, unless `retainHandling` is 2. The
 * subscription ends after the message.
 *
 * Rejects with {@link MqttError}: `timeout`, `canceled` by the signal, `subscribe_refused`, `closed`.
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
  let expired: MqttError | undefined;
  const onTimeout = () => {
    expired = new MqttError("timeout", `${subscription.filters.join(", ")}, ${timeoutMs!} ms`);
    ending.abort(expired);
  };
  const timer = timeoutMs === undefined ? undefined : clock.setTimeout(onTimeout, timeoutMs);
  signal?.addEventListener("abort", onAbort);
  if (signal?.aborted === true) onAbort();

  const first = async () => {
    try {
      const next = await loop.next();
      if (next.done === true) throw new MqttError("closed");
      return next.value;
    } catch (error) {
      throw expired ?? error;
    } finally {
      clock.clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      void loop.return?.();
      // Leaving the loop does not unsubscribe if the session outlives the client.
      subscription.drop();
    }
  };
  return handled(first());
}
