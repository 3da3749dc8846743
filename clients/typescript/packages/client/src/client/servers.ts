import { MqttError } from "../errors.js";
import type { ClientOptions } from "./options.js";
import type { Platform } from "./platform.js";

/** Where a server is, such as `mqtt://127.0.0.1:1883`, or a function that says it anew for each attempt. */
export type ServerAddress = string | URL | (() => string | URL | Promise<string | URL>);

/** The servers of one client, which tries them in turn: all of them make a round. */
export class Servers {
  private readonly servers: readonly (URL | Extract<ServerAddress, () => unknown>)[];
  private at = 0;
  /** Where the round began: at the first server, or at the one that had accepted the client last. */
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

  /** The address of the present server. */
  async url(): Promise<URL> {
    const server = this.servers[this.at]!;
    return typeof server === "function" ? this.parse(await server()) : server;
  }

  /** The present server did not work: answers whether the round has another one. */
  next(): boolean {
    this.at = (this.at + 1) % this.servers.length;
    return this.at !== this.first;
  }

  /** The present server has accepted the client. */
  works(): void {
    this.first = this.at;
  }

  private parse(address: string | URL): URL {
    const schemes = Object.keys(this.platform.transports);
    const text = String(address);
    const url = text.includes("://") ? parsed(text) : null;
    const scheme = text.split("//", 1)[0]!;
    if (url === null && schemes.includes(scheme)) {
      throw new MqttError("invalid_options", `an address is ${scheme}//HOST:PORT, and the port is at most 65535`);
    }
    const isKnown = this.options.transport !== undefined || schemes.includes(url?.protocol ?? "");
    if (!isKnown || !url?.hostname) {
      // What may hold a password is not repeated.
      const meant = /^[\w.:[\]-]+$/.test(text) ? text : "HOST:PORT";
      throw new MqttError("invalid_options", `an address begins with ${schemes.join("// or ")}//: ${schemes[0]!}//${meant}`);
    }
    if (url.username + url.password !== "") {
      throw new MqttError("invalid_options", "user name and password belong in the options");
    }
    // A transport of the program's own may make more of it.
    if (this.options.transport === undefined) this.platform.checkAddress?.(url, this.options);
    // What brokers listen at. A URL cannot tell a path that is missing from `/`.
    if (/^wss?:\/\/[^/?#]*([?#]|$)/i.test(text)) url.pathname = "/mqtt";
    return url;
  }
}

function parsed(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}
