import { MqttError } from "../errors.js";
import type { ClientOptions } from "./options.js";
import type { Platform } from "./platform.js";

/** The address of a server, such as `mqtt://127.0.0.1:1883`, or a function that returns it for each attempt. */
export type ServerAddress = string | URL | (() => string | URL | Promise<string | URL>);

/** The servers of one client, which tries them in turn. One pass over all of them is a round. */
export class Servers {
  private readonly servers: readonly (URL | Extract<ServerAddress, () => unknown>)[];
  private at = 0;
  /** The start of the round: the first server, or the one that accepted the client last. */
  private first = 0;

  /** @throws {MqttError} `invalid_options`: there is no address, or one is wrong. */
  constructor(
    addresses: ServerAddress | readonly ServerAddress[],
    private readonly options: ClientOptions,
    private readonly platform: Platform,
  ) {
    const all = Array.isArray(addresses) ? (addresses as readonly ServerAddress[]) : [addresses as ServerAddress];
    if (all.length === 0) throw new MqttError("invalid_options", "no address");
    this.servers = all.map((each) => (typeof each === "function" ? each : this.parse(each)));
  }

  /** The address of the current server. */
  async url(): Promise<URL> {
    const server = this.servers[this.at]!;
    return typeof server === "function" ? this.parse(await server()) : server;
  }

  /** Moves on to the next server. Returns whether the round has one. */
  next(): boolean {
    this.at = (this.at + 1) % this.servers.length;
    return this.at !== this.first;
  }

  /** The current server has accepted the client: the next round starts with it. */
  accepted(): void {
    this.first = this.at;
  }

  private parse(address: string | URL): URL {
    const schemes = Object.keys(this.platform.transports);
    const text = String(address);
    const url = text.includes("://") ? parseUrl(text) : null;
    const scheme = text.split("//", 1)[0]!;
    if (url === null && schemes.includes(scheme)) {
      throw new MqttError("invalid_options", `an address is ${scheme}//HOST:PORT, with a port up to 65535`);
    }
    const isKnown = this.options.transport !== undefined || schemes.includes(url?.protocol ?? "");
    if (!isKnown || !url?.hostname) {
      // Do not repeat an address that may contain a password.
      const example = /^[\w.:[\]-]+$/.test(text) ? text : "HOST:PORT";
      throw new MqttError("invalid_options", `an address begins with ${schemes.join("// or ")}//, for example ${schemes[0]!}//${example}`);
    }
    if (url.username + url.password !== "") {
      throw new MqttError("invalid_options", "user name and password belong in the options");
    }
    // A custom transport may support other addresses.
    if (this.options.transport === undefined) this.platform.checkAddress?.(url, this.options);
    // The path that brokers use. A parseUrl URL does not distinguish a missing path from `/`.
    if (/^wss?:\/\/[^/?#]*([?#]|$)/i.test(text)) url.pathname = "/mqtt";
    return url;
  }
}

function parseUrl(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}
