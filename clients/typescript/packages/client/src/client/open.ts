import { Client } from "./client.js";
import type { ClientOptions } from "./options.js";
import type { Platform } from "./platform.js";

/**
 * Connects, and resolves when the server has accepted the connection. From then on the client stays connected; if the first
 * attempt fails, the promise rejects and the client is closed.
 *
 * @throws {MqttError} As a rejection: `connection_refused`, `transport_failed`, `connect_timeout`, `invalid_argument` …
 */
export type Connect = (url: string | URL, options?: ClientOptions) => Promise<Client>;

/**
 * A client that begins to connect at once and goes on until it succeeds. Subscribe and publish without waiting: messages
 * wait in the queue, subscriptions are made as soon as there is a connection.
 *
 * @throws {MqttError} `invalid_argument`: the URL or an option is wrong.
 */
export type CreateClient = (url: string | URL, options?: ClientOptions) => Client;

export function createOn(platform: Platform): CreateClient {
  return (url, options = {}) => new Client(url, options, platform, false);
}

export function connectOn(platform: Platform): Connect {
  return async (url, options = {}) => {
    const client = new Client(url, options, platform, true);
    await client.connected();
    return client;
  };
}
