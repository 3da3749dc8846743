// Listeners, and the expiry of their certificates.

import type { JSX } from "preact";
import { get } from "../api/request";
import type { Certificate, Listener } from "../api/shapes";
import { count, dayAndClock, NONE, relative } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, type State } from "../ui/values";

const DAY_MS = 86_400_000;
/** With less time left, a certificate is highlighted. */
const SOON_MS = 21 * DAY_MS;

const COLUMNS: readonly Column<Listener>[] = [
  { key: "name", head: "Listener", isRowHead: true, cell: ({ name }) => <a href={href(["clients"], { listener: name })}>{name}</a> },
  { key: "address", head: "Address", cell: ({ address }) => address ?? "a Unix socket" },
  { key: "connections", head: "Connections", isNumber: true, cell: (listener) => count(listener.connections) },
  { key: "accepted", head: "Accepted", isNumber: true, cell: (listener) => count(listener.accepted) },
  { key: "refused", head: "Refused", isNumber: true, cell: (listener) => count(listener.refused) },
  { key: "tls", head: "TLS", cell: ({ tls }) => (tls === null ? "no" : "yes") },
];

interface Held extends Certificate {
  listener: string;
}

const CERTIFICATE_COLUMNS: readonly Column<Held>[] = [
  { key: "names", head: "Names", isRowHead: true, cell: ({ names }) => (names.length === 0 ? "none" : names.join(", ")) },
  { key: "listener", head: "Listener", cell: ({ listener }) => listener },
  { key: "until", head: "Valid until", cell: ({ not_after_ms: atMs }) => (atMs === null ? NONE : <time dateTime={new Date(atMs).toISOString()}>{dayAndClock(atMs)}</time>) },
  {
    key: "left",
    head: "Time left",
    cell: ({ not_after_ms: atMs }) => {
      if (atMs === null) {
        return NONE;
      }
      const now = Date.now();
      return <Badge state={certificateState(atMs, now)}>{atMs <= now ? `expired ${relative(atMs, now)}` : relative(atMs, now).replace(/^in /, "")}</Badge>;
    },
  },
];

/** The expiry of a certificate; unknown if the broker cannot parse it. */
function endOf({ not_after_ms: atMs }: Certificate): number {
  return atMs ?? Number.POSITIVE_INFINITY;
}

function certificateState(atMs: number, nowMs: number): State {
  if (atMs <= nowMs) {
    return "bad";
  }
  return atMs - nowMs < SOON_MS ? "warn" : "good";
}

export function ListenersPage(): JSX.Element {
  const loaded = useLoad("listeners", (signal) => get("/v1/listeners", { signal }));
  return (
    <Page title="Listeners" actions={<Refresh loaded={loaded} />}>
      <LoadedContent loaded={loaded}>
        {({ listeners }) => (
          <>
            <Table caption="Listeners" columns={COLUMNS} rows={listeners} rowKey={({ name }) => name} />
            <Certificates listeners={listeners} />
          </>
        )}
      </LoadedContent>
    </Page>
  );
}

function Certificates({ listeners }: { listeners: readonly Listener[] }): JSX.Element | null {
  const held = listeners
    .flatMap(({ name, tls }) => (tls?.certificates ?? []).map((certificate) => ({ ...certificate, listener: name })))
    .sort((one, other) => endOf(one) - endOf(other));
  if (held.length === 0) {
    return null;
  }
  const isExpiring = held.some((certificate) => endOf(certificate) - Date.now() < SOON_MS);
  return (
    <section aria-labelledby="certificates">
      <h2 id="certificates">Certificates</h2>
      {isExpiring && (
        <p class="banner">A certificate has expired or will soon. Replace its file, and reload the configuration: clients stay connected.</p>
      )}
      <Table caption="Certificates, by remaining time" columns={CERTIFICATE_COLUMNS} rows={held} rowKey={({ listener, names, not_after_ms: atMs }) => `${listener} ${names.join()} ${atMs}`} />
    </section>
  );
}
