// One client: its connection, session, subscriptions, undelivered messages, and actions.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "../api/request";
import type { ClientDetail, DropEvent, Subscription } from "../api/shapes";
import { bytes, count, duration, expiry, NONE, words } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { Table } from "../ui/table";
import { Badge, Facts, When } from "../ui/values";
import { Pager } from "../ui/pager";
import { useMay } from "../session";
import { type ClientAction, ClientDialog } from "./client-dialogs";

const DETAIL_EVERY_MS = 5_000;
const SUBSCRIPTIONS_PER_PAGE = 100;

interface Named {
  clientId: string;
  mountPoint: string | null;
}

export function ClientPage({ clientId, mountPoint }: Named): JSX.Element {
  const query = { mount_point: mountPoint };
  const client = useLoad("client", (signal) => get("/v1/clients/{client}", { path: { client: clientId }, query, signal }), { everyMs: DETAIL_EVERY_MS });
  const mayOperate = useMay("operate");
  const [action, setAction] = useState<ClientAction | null>(null);
  return (
    <Page
      title={`Client ${clientId}`}
      actions={
        <>
          <Refresh loaded={client} />
          <a class="button" href={href(["why"], { client: clientId, mount_point: mountPoint })}>
            Why?
          </a>
          {mayOperate && client.data !== null && (
            <>
              {client.data.connected && (
                <button type="button" onClick={() => setAction("disconnect")}>
                  Disconnect…
                </button>
              )}
              <button type="button" onClick={() => setAction("ban")}>
                Ban…
              </button>
              <button type="button" onClick={() => setAction("end")}>
                End session…
              </button>
            </>
          )}
        </>
      }
    >
      <LoadedContent loaded={client}>{(data) => <Detail client={data} />}</LoadedContent>
      {client.error?.status === 404 && (
        <p>
          The client has never connected, or its session has ended. <a href={href(["clients"])}>All clients</a>
        </p>
      )}
      <Subscriptions clientId={clientId} mountPoint={mountPoint} />
      {action !== null && client.data !== null && (
        <ClientDialog action={action} client={client.data} onDone={client.reload} onClose={() => setAction(null)} />
      )}
    </Page>
  );
}

function Detail({ client }: { client: ClientDetail }): JSX.Element {
  return (
    <>
      <ReadingPaused reasons={client.paused_for} />
      <FullWindow client={client} />
      <div class="columns">
        <section aria-labelledby="connection">
          <h2 id="connection">Connection</h2>
          <Connection client={client} />
        </section>
        <section aria-labelledby="session">
          <h2 id="session">Session</h2>
          <SessionFacts client={client} />
        </section>
        <section aria-labelledby="limits">
          <h2 id="limits">Identity and limits</h2>
          <Facts
            facts={[
              ["User", client.user ?? "none"],
              ["Authenticated by", client.authenticated_by ?? NONE],
              ["Roles", client.roles.length > 0 ? client.roles.join(", ") : client.connected ? "none" : NONE],
              ["Receive Maximum", client.send_maximum === null ? NONE : `${count(client.send_maximum)} messages`],
              ["Maximum packet size", client.maximum_packet_size_bytes === null ? "not limited by the client" : bytes(client.maximum_packet_size_bytes)],
              ["Memory held", bytes(client.memory_bytes)],
            ]}
          />
        </section>
      </div>
      <Drops drops={client.drops} />
    </>
  );
}

/** Why the broker has paused reading from it. */
function ReadingPaused({ reasons }: { reasons: readonly string[] }): JSX.Element | null {
  return reasons.length === 0 ? null : (
    <p class="banner">
      <strong>The broker does not read from this client at the moment:</strong> {reasons.map((reason) => words(reason).toLowerCase()).join(", ")}.
    </p>
  );
}

/** Whether the client has as many unacknowledged messages as its Receive Maximum allows. */
export function hasFullWindow({ in_flight: inFlight, send_maximum: maximum }: ClientDetail): boolean {
  return maximum !== null && maximum > 0 && inFlight >= maximum;
}

function FullWindow({ client }: { client: ClientDetail }): JSX.Element | null {
  return client.connected && hasFullWindow(client) ? (
    <p class="banner">
      <strong>The client does not acknowledge:</strong> {count(client.in_flight)} of {count(client.send_maximum)} messages are in flight, and{" "}
      {count(client.queued_messages)} are queued until it acknowledges one.
    </p>
  ) : null;
}

function ConnectionState({ client }: { client: ClientDetail }): JSX.Element {
  return hasFullWindow(client) ? <Badge state="warn">connected, window full</Badge> : <Badge state="good">connected</Badge>;
}

function Connection({ client }: { client: ClientDetail }): JSX.Element {
  if (!client.connected) {
    return (
      <p>
        <Badge state="plain">offline</Badge> The client is not connected.
      </p>
    );
  }
  return (
    <Facts
      facts={[
        ["State", <ConnectionState key="state" client={client} />],
        ["Address", client.address ?? NONE],
        ["Listener", client.listener ?? NONE],
        ["TLS", client.encrypted === true ? "yes" : "no"],
        ["MQTT", client.protocol ?? NONE],
        ["Connected", <When key="connected" atMs={client.connected_ms} />],
        ["Last packet", <When key="heard" atMs={client.last_received_ms} />],
        ["Keep alive", client.keep_alive_s === undefined || client.keep_alive_s === 0 ? "off" : duration(client.keep_alive_s)],
        ["Pending output", bytes(client.output_bytes)],
        ["Memory of the connection", bytes(client.connection_bytes)],
      ]}
    />
  );
}

function SessionFacts({ client }: { client: ClientDetail }): JSX.Element {
  return (
    <Facts
      facts={[
        ["Mount point", client.mount_point ?? "none"],
        ["Resumed", client.resumed ? "yes" : "no"],
        ["Ends", client.expires_at_ms === null ? expiry(client.session_expiry_s) : <When key="ends" atMs={client.expires_at_ms} />],
        ["Subscriptions", count(client.subscriptions)],
        ["Queue", `${count(client.queued_messages)} messages, ${bytes(client.queued_bytes)}`],
        ["In flight to the client", client.send_maximum === null ? count(client.in_flight) : `${count(client.in_flight)} of ${count(client.send_maximum)}`],
        ["QoS 2 from the client, incomplete", count(client.inbound_in_flight)],
        ["Pending acknowledgements", count(client.pending_acks)],
        ["Will", client.will_topic ?? "none"],
      ]}
    />
  );
}

export function Drops({ drops }: { drops: readonly DropEvent[] }): JSX.Element {
  return (
    <section aria-labelledby="last-drops">
      <h2 id="last-drops">Undelivered messages</h2>
      {drops.length === 0 ? (
        <Empty title="None recorded." />
      ) : (
        <Table
          caption="Undelivered messages, newest first"
          columns={[
            { key: "topic", head: "Topic", isRowHead: true, cell: ({ topic }) => <code>{topic}</code> },
            { key: "reason", head: "Reason", cell: ({ reason }) => words(reason) },
            { key: "count", head: "Messages", isNumber: true, cell: (drop) => count(drop.count) },
            { key: "last", head: "Last", cell: ({ last_ms: atMs }) => <When atMs={atMs} /> },
          ]}
          rows={drops.toReversed()}
          rowKey={(drop) => `${drop.reason} ${drop.topic} ${drop.last_ms}`}
        />
      )}
    </section>
  );
}

function Subscriptions({ clientId, mountPoint }: Named): JSX.Element {
  /** The start of each page shown so far, except the first. */
  const [trail, setTrail] = useState<readonly string[]>([]);
  const after = trail.at(-1) ?? null;
  const loaded = useLoad(
    after ?? "",
    async (signal) => ({
      ...(await get("/v1/clients/{client}/subscriptions", { path: { client: clientId }, query: { mount_point: mountPoint, after, limit: SUBSCRIPTIONS_PER_PAGE }, signal })),
      answered: trail,
    }),
    { keepsPrevious: true },
  );
  if (loaded.error?.status === 404) {
    return <></>;
  }
  return (
    <section aria-labelledby="subscriptions">
      <h2 id="subscriptions">Subscriptions</h2>
      <LoadedContent loaded={loaded}>
        {({ subscriptions, next, answered }) =>
          subscriptions.length === 0 ? (
            <Empty title="The client has no subscriptions." />
          ) : (
            <>
              <Table caption="Subscriptions" columns={SUBSCRIPTION_COLUMNS} rows={subscriptions} rowKey={({ filter }) => filter} />
              <Pager trail={answered} next={next} onTurn={setTrail} />
            </>
          )
        }
      </LoadedContent>
    </section>
  );
}

const RETAIN_HANDLING = ["sent", "sent if new", "not sent"];

const SUBSCRIPTION_COLUMNS = [
  { key: "filter", head: "Filter", isRowHead: true, cell: ({ filter }: Subscription) => <code>{filter}</code> },
  { key: "qos", head: "QoS", isNumber: true, cell: ({ qos }: Subscription) => qos },
  { key: "retained", head: "Retained messages", cell: (subscription: Subscription) => RETAIN_HANDLING[subscription.retain_handling] ?? NONE },
  { key: "options", head: "Options", cell: options },
  { key: "identifier", head: "Identifier", isNumber: true, cell: ({ identifier }: Subscription) => identifier ?? NONE },
  { key: "format", head: "Format", cell: ({ format }: Subscription) => format ?? "as published" },
];

function options({ no_local: noLocal, retain_as_published: asPublished }: Subscription): string {
  return [noLocal ? "No Local" : "", asPublished ? "Retain As Published" : ""].filter((name) => name !== "").join(", ") || NONE;
}
