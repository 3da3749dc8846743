import { afterEach } from "node:test";
import { connect as open, createClient as create, type Client, type ClientOptions } from "@tautwire/client";

const clients = new Set<Client>();

/** As `createClient`; the client is closed after the test, also if it fails. */
export function createClient(url: string, options?: ClientOptions): Client {
  const client = create(url, options);
  clients.add(client);
  return client;
}

/** As `connect`; the client is closed after the test, also if it fails. */
export async function connect(url: string, options?: ClientOptions): Promise<Client> {
  const client = await open(url, options);
  clients.add(client);
  return client;
}

afterEach(async () => {
  await Promise.all([...clients].map((client) => client.close({ signal: AbortSignal.abort() })));
  clients.clear();
});
