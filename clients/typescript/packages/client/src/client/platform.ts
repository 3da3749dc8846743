import type { TransportFactory } from "../transport/transport.js";
import type { ClientOptions } from "./options.js";

/** What differs from one platform to the other. */
export interface Platform {
  /** By the protocol of the URL, such as `mqtt:`. */
  readonly transports: Readonly<Record<string, TransportFactory>>;
  /**
   * Looks at what only addresses of some protocols may have, and options only with them.
   *
   * @throws {MqttError} `invalid_options`
   */
  checkAddress?(address: URL, options: ClientOptions): void;
  /** Calls back once this turn of the event loop is done. */
  defer(callback: () => void): void;
  /** Calls back when the program may have been asleep or cut off. Answers how to stop that. */
  onWake(callback: () => void): () => void;
}
