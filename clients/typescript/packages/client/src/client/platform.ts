import type { TransportFactory } from "../transport/transport.js";
import type { ClientOptions } from "./options.js";

/** The functions that differ between platforms. */
export interface Platform {
  /** The transports, by the protocol of the URL, such as `mqtt:`. */
  readonly transports: Readonly<Record<string, TransportFactory>>;
  /**
   * Checks the parts of an address, and the options, that only some protocols allow.
   *
   * @throws {MqttError} `invalid_options`
   */
  checkAddress?(address: URL, options: ClientOptions): void;
  /** Calls back at the end of this turn of the event loop. */
  defer(callback: () => void): void;
  /** Calls back when the program may have been suspended or offline. Returns a function that stops this. */
  onWake(callback: () => void): () => void;
}
