// The brokers that are one to their clients, as the one that serves this page sees them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, get, request } from "../api/request";
import type { Cluster, ClusterNode } from "../api/shapes";
import { bytes, count, duration, NONE } from "../format";
import { useLoad } from "../load";
import { Dialog } from "../ui/dialog";
import { Answer, Empty, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, Facts, Figure, type State } from "../ui/values";
import { useMay } from "../who";

const CLUSTER_EVERY_MS = 5_000;

/** A node to drain; or the one that answers sends clients elsewhere. */
type Order = { what: "drain"; node: string } | { what: "rebalance" };

export function ClusterPage(): JSX.Element {
  const loaded = useLoad("cluster", cluster, { everyMs: CLUSTER_EVERY_MS });
  const mayOperate = useMay("operate");
  const [order, setOrder] = useState<Order | null>(null);
  const known = loaded.data?.cluster ?? null;
  return (
    <Page
      title="Cluster"
      actions={
        <>
          <Refresh loaded={loaded} />
          {mayOperate && known !== null && (
            <button type="button" onClick={() => setOrder({ what: "rebalance" })}>
              Rebalance…
            </button>
          )}
        </>
      }
    >
      <Answer loaded={loaded}>{({ cluster: shown }) => (shown === null ? <Alone /> : <Nodes cluster={shown} onDrain={mayOperate ? (node) => setOrder({ what: "drain", node }) : null} />)}</Answer>
      {order !== null && known !== null && <OrderDialog order={order} name={known.name} onDone={loaded.reload} onClose={() => setOrder(null)} />}
    </Page>
  );
}

/** `null` for a broker that is alone. */
async function cluster(signal: AbortSignal): Promise<{ cluster: Cluster | null }> {
  try {
    return { cluster: await get("/v1/cluster", { signal }) };
  } catch (error) {
    if (error instanceof ApiError && error.code === "no_cluster") {
      return { cluster: null };
    }
    throw error;
  }
}

function Alone(): JSX.Element {
  return (
    <Empty title="This broker is alone.">
      It is one of several once <code>cluster.servers</code> names NATS servers, or it is started with <code>--cluster</code>.
    </Empty>
  );
}

const STATES: Record<ClusterNode["state"], readonly [State, string]> = {
  alive: ["good", "takes clients"],
  closed: ["warn", "takes no clients"],
  dying: ["bad", "not heard of: its sessions are being freed"],
  buried: ["plain", "over: its sessions are free"],
};

const COLUMNS: readonly Column<ClusterNode>[] = [
  { key: "name", head: "Node", isRowHead: true, cell: (node) => `${node.name}${node.this_one ? " (this one)" : ""}` },
  {
    key: "state",
    head: "State",
    cell: (node) => {
      const [state, told] = STATES[node.state];
      return <Badge state={state}>{told}</Badge>;
    },
  },
  { key: "sessions", head: "Sessions", isNumber: true, cell: (node) => count(node.sessions) },
  { key: "reference", head: "Clients reach it at", cell: ({ reference }) => (reference === "" ? NONE : reference) },
  { key: "age", head: "Last heard of", cell: (node) => `${duration(node.age_ms / 1_000)} ago` },
  { key: "life", head: "Life", cell: ({ life }) => <code>{life}</code> },
];

function Nodes({ cluster: shown, onDrain }: { cluster: Cluster; onDrain: ((node: string) => void) | null }): JSX.Element {
  const { log, sessions, retained, configuration, nats } = shown;
  const action: Column<ClusterNode> = {
    key: "action",
    head: "Action",
    cell: ({ name, state, this_one: isThisOne }) => (
      <button type="button" onClick={() => onDrain?.(name)} disabled={state !== "alive" || (isThisOne && shown.draining)} aria-label={`Drain ${name}`}>
        Drain…
      </button>
    ),
  };
  return (
    <>
      {nats.state === "waiting" && (
        <p class="banner">
          <strong>This node has no way to NATS.</strong> It goes on trying. {nats.why}
        </p>
      )}
      {nats.state === "ready" && nats.why !== null && (
        <p class="banner">
          <strong>The new access to NATS cannot be used; the one before is.</strong> {nats.why}
        </p>
      )}
      {configuration.behind && (
        <p class="banner">
          <strong>This node takes no new clients:</strong> it could not take on revision {configuration.latest} of the shared configuration. {configuration.why.join("; ")}
        </p>
      )}
      <dl class="figures">
        <Figure name="This node" value={shown.name} note={shown.serving ? (shown.draining ? "is being drained" : "serves clients") : "serves no clients"} />
        <Figure name="Sessions" value={count(sessions.serving)} note={sessions.resting > 0 ? `${count(sessions.resting)} wait for their wills` : undefined} />
        <Figure name="On the way to the log" value={count(log.messages_waiting)} note={log.slowest_ms === null ? bytes(log.bytes_waiting) : `${bytes(log.bytes_waiting)}, the oldest for ${count(log.slowest_ms)} ms`} />
        <Figure name="Retained messages" value={retained.complete ? "all here" : "being copied"} note={retained.complete ? undefined : `${count(retained.position)} of ${count(retained.end)}`} />
        <Figure name="Shared configuration" value={configuration.held === 0 ? "none" : `revision ${count(configuration.held)}`} note={configuration.held === 0 ? "each node has its own" : undefined} />
      </dl>
      <Table caption="Nodes" columns={onDrain === null ? COLUMNS : [...COLUMNS, action]} rows={shown.nodes} rowKey={({ life }) => life} />
      <section aria-labelledby="counts">
        <h2 id="counts">Since this life of the node began</h2>
        <Facts
          facts={[
            ["Clients sent to other nodes", count(shown.clients_moved)],
            ["Messages refused for lack of a quorum", count(shown.messages_timed_out)],
            ["Times that a partition of the log took no more", count(shown.messages_given_back)],
            ["Sessions of dead nodes that it has freed", count(shown.sessions_freed)],
            ["Sessions that it has taken on for their wills", count(shown.sessions_adopted)],
            ["Retained messages that it cannot read", count(retained.unreadable)],
          ]}
        />
      </section>
    </>
  );
}

function OrderDialog({ order, name, onDone, onClose }: { order: Order; name: string; onDone: () => void; onClose: () => void }): JSX.Element {
  const give = async (): Promise<void> => {
    await (order.what === "drain" ? request("POST /v1/cluster/drain", { query: { node: order.node } }) : request("POST /v1/cluster/rebalance", {}));
    onDone();
  };
  return order.what === "drain" ? (
    <Dialog title={`Drain ${order.node}?`} verb="Drain" action={give} onClose={onClose}>
      <p>All its clients are sent to other nodes, and it takes no more. There is no way back but a restart of the broker. Nothing is lost.</p>
    </Dialog>
  ) : (
    <Dialog title={`Rebalance ${name}?`} verb="Rebalance" action={give} onClose={onClose}>
      <p>If this node has more clients than its share, it sends some of them to other nodes. They connect there again.</p>
    </Dialog>
  );
}
