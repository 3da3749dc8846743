// All clients: search, filters, sorting and paging.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/request";
import type { ClientSummary, ClientsPage as Clients } from "../api/shapes";
import { bytes, count, NONE } from "../format";
import { useLoad } from "../load";
import { clientHref, go, href, replace } from "../router";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, When } from "../ui/values";

const PER_PAGE = 100;
/** The delay between typing and the search. */
const SEARCH_DELAY_MS = 250;

type Query = Readonly<Record<string, string>>;

const COLUMNS: readonly Column<ClientSummary>[] = [
  {
    key: "client_id",
    head: "Client",
    sort: "client_id",
    isRowHead: true,
    cell: (client) => (
      <>
        <a href={clientHref(client.client_id, client.mount_point)}>{client.client_id}</a>
        {client.mount_point !== null && <span class="faint"> in {client.mount_point}</span>}
      </>
    ),
  },
  { key: "state", head: "State", cell: (client) => <State client={client} /> },
  // The sortable columns come first, so that they are visible on a narrow screen.
  { key: "queued", head: "Queued", sort: "queued_messages", isNumber: true, cell: (client) => count(client.queued_messages) },
  { key: "queued_bytes", head: "Queued bytes", sort: "queued_bytes", isNumber: true, cell: (client) => bytes(client.queued_bytes) },
  { key: "in_flight", head: "In flight", sort: "in_flight", isNumber: true, cell: (client) => count(client.in_flight) },
  { key: "subscriptions", head: "Subscriptions", sort: "subscriptions", isNumber: true, cell: (client) => count(client.subscriptions) },
  { key: "held", head: "Memory", sort: "memory_bytes", isNumber: true, cell: (client) => bytes(client.memory_bytes) },
  { key: "user", head: "User", sort: "user", cell: ({ user }) => user ?? NONE },
  { key: "listener", head: "Listener", cell: ({ listener }) => listener ?? NONE },
  { key: "address", head: "Address", cell: ({ address }) => address ?? NONE },
  { key: "heard", head: "Last packet", cell: ({ last_received_ms: atMs }) => <When atMs={atMs} /> },
];

/** A connected client with queued messages has not acknowledged earlier ones. */
function State({ client: { connected, queued_messages: queued } }: { client: ClientSummary }): JSX.Element {
  if (!connected) {
    return <Badge state="plain">offline</Badge>;
  }
  return queued > 0 ? <Badge state="warn">connected, behind</Badge> : <Badge state="good">connected</Badge>;
}

export function ClientsPage({ query }: { query: Query }): JSX.Element {
  const asked = {
    search: query["search"],
    connected: query["connected"],
    listener: query["listener"],
    sort: query["sort"],
    descending: query["descending"],
    after: query["after"],
    limit: PER_PAGE,
  };
  // With the query that was answered: the page is labelled with it, and not with a later one that is in progress.
  const clients = useLoad(JSON.stringify(asked), async (signal) => ({ data: await get("/v1/clients", { query: asked, signal }), answered: query }), { keepsPrevious: true });
  /** A changed query starts at the first page. */
  const ask = (change: Query): string => href(["clients"], { ...query, after: null, page: null, ...change });
  return (
    <Page title="Clients" actions={<Refresh loaded={clients} />}>
      <Filters query={query} ask={ask} />
      <LoadedContent loaded={clients}>
        {({ data, answered }) =>
          data.clients.length === 0 ? (
            <Nothing query={answered} />
          ) : (
            <>
              <Table
                caption="Clients"
                columns={COLUMNS}
                rows={data.clients}
                rowKey={(client) => `${client.mount_point ?? ""}\n${client.client_id}`}
                isBusy={clients.isLoading}
                sorting={{
                  by: answered["sort"] ?? "client_id",
                  isDescending: answered["descending"] === "true",
                  onSort: (sort, isDescending) => go(ask({ sort, descending: isDescending ? "true" : "" })),
                }}
              />
              <Pager data={data} query={answered} />
            </>
          )
        }
      </LoadedContent>
    </Page>
  );
}

function Filters({ query, ask }: { query: Query; ask: (change: Query) => string }): JSX.Element {
  const listeners = useLoad("listeners", (signal) => get("/v1/listeners", { signal }));
  const [text, setText] = useState(query["search"] ?? "");
  const timer = useRef<number | undefined>(undefined);
  // Back and forward change the address, and the field follows. Cancel a pending search, so that it does not revert that.
  useEffect(() => {
    window.clearTimeout(timer.current);
    setText(query["search"] ?? "");
  }, [query]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const type = (search: string): void => {
    setText(search);
    window.clearTimeout(timer.current);
    const at = window.location.hash;
    timer.current = window.setTimeout(() => {
      // Do nothing if the user has navigated away, even if this page has not been redrawn yet.
      if (window.location.hash === at) {
        replace(ask({ search }));
      }
    }, SEARCH_DELAY_MS);
  };
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        Client or user
        <input type="search" placeholder="a part of the name" spellcheck={false} value={text} onInput={(event) => type(event.currentTarget.value)} />
      </label>
      <label class="field">
        State
        <select value={query["connected"] ?? ""} onChange={(event) => go(ask({ search: text, connected: event.currentTarget.value }))}>
          <option value="">all</option>
          <option value="true">connected</option>
          <option value="false">offline</option>
        </select>
      </label>
      <label class="field">
        Listener
        <select value={query["listener"] ?? ""} onChange={(event) => go(ask({ search: text, listener: event.currentTarget.value }))}>
          <option value="">all</option>
          {(listeners.data?.listeners ?? []).map(({ name }) => (
            <option key={name} value={name} selected={name === query["listener"]}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </form>
  );
}

/** The starts of pages that have been shown, by query and number. */
const begins = new Map<string, string>();
/** The maximum number of remembered starts. */
const BEGINS_MAX = 10_000;

function Pager({ data, query }: { data: Clients; query: Query }): JSX.Element {
  const page = Math.max(1, Number(query["page"] ?? "1") || 1);
  const first = (page - 1) * PER_PAGE + 1;
  const last = first + data.clients.length - 1;
  const beginOf = (number: number): string => JSON.stringify({ ...query, after: undefined, page: number });
  if (begins.size >= BEGINS_MAX) {
    begins.clear();
  }
  begins.set(beginOf(page), query["after"] ?? "");
  const previous = begins.get(beginOf(page - 1));
  return (
    <nav class="pager" aria-label="Pages of clients">
      <span role="status">
        {count(first)} to {count(last)} of {count(data.matched)}
      </span>
      {page > 1 && <a href={href(["clients"], { ...query, after: null, page: null })}>First page</a>}
      {page > 1 && previous !== undefined && (
        <a class="button" href={href(["clients"], { ...query, after: previous, page: page === 2 ? null : page - 1 })}>
          Previous
        </a>
      )}
      {data.next !== null && last < data.matched && (
        <a class="button" href={href(["clients"], { ...query, after: data.next, page: page + 1 })}>
          Next
        </a>
      )}
    </nav>
  );
}

function Nothing({ query }: { query: Query }): JSX.Element {
  const isFiltered = ["search", "connected", "listener", "after"].some((name) => (query[name] ?? "") !== "");
  return isFiltered ? (
    <Empty title="No client matches.">
      <a href={href(["clients"])}>Show all clients</a>
    </Empty>
  ) : (
    <Empty title="No client has a session.">
      Connect one, for example with <code>tautwire sub 'demo/#'</code>.
    </Empty>
  );
}
