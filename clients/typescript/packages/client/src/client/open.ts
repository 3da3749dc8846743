import { Client } from "./client.js";
import type { ClientOptions } from "./options.js";
import type { Platform } from "./platform.js";
import type { ServerAddress } from "./servers.js";

/**
 * Connects, and resolves when the server has accepted the connection. The client then reconnects automatically. If the first
 * attempt fails, the promise rejects and the client is closed. If there are several servers, each is tried once, in turn.
 *
 * @throws {MqttError} As a rejection: `unreachable`, `connection_refused`, `connect_timeout`, `invalid_options` …
 */
export type Connect = (server: ServerAddress | readonly ServerAddress[], options?: ClientOptions) => Promise<Client>;

/**
 * Creates a client that connects in the background and retries until it succeeds. You can subscribe and publish immediately: messages
 * wait in the queue, and the client subscribes as soon as it is connected. Several servers are tried in turn.
 *
 * @throws {MqttError} `invalid_options`: an address or an option is wrong.
 */
export type CreateClient = (server: ServerAddress | readonly ServerAddress[], options?: ClientOptions) => Client;

export function createOn(platform: Platform): CreateClient {
  return (server, options = {}) => new Client(server, options, platform, false);
}

export function connectOn(platform: Platform): Connect {
  return async (server, options = {}) => {
    const client = new Client(server, options, platform, true);
    await client.connected();
    return client;
  };
}
