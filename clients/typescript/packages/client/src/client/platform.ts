import type { TransportFactory } from "../transport/transport.js";

/** What differs from one platform to the other. */
export interface Platform {
  /** By the protocol of the URL, such as `mqtt:`. */
  readonly transports: Readonly<Record<string, TransportFactory>>;
  /**
   * Looks at what only addresses of some protocols may have.
   *
   * @throws {MqttError} `invalid_options`
   */
  checkAddress?(address: URL): void;
  /** Calls back once this turn of the event loop is done. */
  defer(callback: () => void): void;
  /** Calls back when the program may have been asleep or cut off. Answers how to stop that. */
  onWake(callback: () => void): () => void;
}
