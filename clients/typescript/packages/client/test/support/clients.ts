import { afterEach } from "node:test";
import { connect as open, createClient as create, type Client, type ClientOptions, type ServerAddress } from "@tautwire/client";

type Server = ServerAddress | readonly ServerAddress[];

const clients = new Set<Client>();

/** Like `createClient`; the client is closed after the test, also if it fails. */
export function createClient(server: Server, options?: ClientOptions): Client {
  const client = create(server, options);
  clients.add(client);
  return client;
}

/** Like `connect`; the client is closed after the test, also if it fails. */
export async function connect(server: Server, options?: ClientOptions): Promise<Client> {
  const client = await open(server, options);
  clients.add(client);
  return client;
}

afterEach(async () => {
  await Promise.all([...clients].map((client) => client.close({ signal: AbortSignal.abort() })));
  clients.clear();
});
