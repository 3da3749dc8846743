// The nodes of the cluster, as seen by the one that serves this page.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, get, request } from "../api/request";
import type { Cluster, ClusterNode } from "../api/shapes";
import { bytes, count, duration, NONE } from "../format";
import { useLoad } from "../load";
import { Dialog } from "../ui/dialog";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, Facts, Figure, type State } from "../ui/values";
import { useMay } from "../session";

const CLUSTER_EVERY_MS = 5_000;

/** A command for a node: drain it, or rebalance this one. */
type Command = { what: "drain"; node: string } | { what: "rebalance" };

export function ClusterPage(): JSX.Element {
  const loaded = useLoad("cluster", cluster, { everyMs: CLUSTER_EVERY_MS });
  const mayOperate = useMay("operate");
  const [command, setCommand] = useState<Command | null>(null);
  const current = loaded.data?.cluster ?? null;
  return (
    <Page
      title="Cluster"
      actions={
        <>
          <Refresh loaded={loaded} />
          {mayOperate && current !== null && (
            <button type="button" onClick={() => setCommand({ what: "rebalance" })}>
              Rebalance…
            </button>
          )}
        </>
      }
    >
      <LoadedContent loaded={loaded}>{({ cluster: shown }) => (shown === null ? <NoCluster /> : <Nodes cluster={shown} onDrain={mayOperate ? (node) => setCommand({ what: "drain", node }) : null} />)}</LoadedContent>
      {command !== null && current !== null && <CommandDialog command={command} name={current.name} onDone={loaded.reload} onClose={() => setCommand(null)} />}
    </Page>
  );
}

/** `null` for a broker that is not in a cluster. */
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

function NoCluster(): JSX.Element {
  return (
    <Empty title="This broker is not in a cluster.">
      To form a cluster, set <code>cluster.servers</code> to NATS servers, or start the broker with <code>--cluster</code>.
    </Empty>
  );
}

const STATES: Record<ClusterNode["state"], readonly [State, string]> = {
  alive: ["good", "accepts clients"],
  left: ["warn", "accepts no clients"],
  failed: ["bad", "no heartbeat: its sessions are being released"],
  removed: ["plain", "removed: its sessions are released"],
};

const COLUMNS: readonly Column<ClusterNode>[] = [
  { key: "name", head: "Node", isRowHead: true, cell: (node) => `${node.name}${node.self ? " (this one)" : ""}` },
  {
    key: "state",
    head: "State",
    cell: (node) => {
      const [state, told] = STATES[node.state];
      return <Badge state={state}>{told}</Badge>;
    },
  },
  { key: "sessions", head: "Sessions", isNumber: true, cell: (node) => count(node.sessions) },
  { key: "reference", head: "Server reference", cell: ({ reference }) => (reference === "" ? NONE : reference) },
  { key: "age", head: "Last heartbeat", cell: (node) => `${duration(node.age_ms / 1_000)} ago` },
  { key: "life", head: "Run", cell: ({ incarnation }) => <code>{incarnation}</code> },
];

function Nodes({ cluster: shown, onDrain }: { cluster: Cluster; onDrain: ((node: string) => void) | null }): JSX.Element {
  const { log, sessions, retained, configuration, nats } = shown;
  const action: Column<ClusterNode> = {
    key: "action",
    head: "Action",
    cell: ({ name, state, self: isThisOne }) => (
      <button type="button" onClick={() => onDrain?.(name)} disabled={state !== "alive" || (isThisOne && shown.draining)} aria-label={`Drain ${name}`}>
        Drain…
      </button>
    ),
  };
  return (
    <>
      {nats.state === "waiting" && (
        <p class="banner">
          <strong>This node cannot reach NATS.</strong> It keeps trying. {nats.reason}
        </p>
      )}
      {nats.state === "ready" && nats.reason !== null && (
        <p class="banner">
          <strong>The new NATS settings do not work; the previous ones are still in use.</strong> {nats.reason}
        </p>
      )}
      {configuration.lagging && (
        <p class="banner">
          <strong>This node accepts no new clients:</strong> it could not apply revision {configuration.latest} of the shared configuration. {configuration.reasons.join("; ")}
        </p>
      )}
      <dl class="figures">
        <Figure name="This node" value={shown.name} note={shown.serving ? (shown.draining ? "is being drained" : "serves clients") : "serves no clients"} />
        <Figure name="Sessions" value={count(sessions.active)} note={sessions.dormant > 0 ? `${count(sessions.dormant)} kept for their wills` : undefined} />
        <Figure name="Pending log messages" value={count(log.messages_waiting)} note={log.slowest_ms === null ? bytes(log.bytes_waiting) : `${bytes(log.bytes_waiting)}, the oldest for ${count(log.slowest_ms)} ms`} />
        <Figure name="Retained messages" value={retained.complete ? "complete" : "syncing"} note={retained.complete ? undefined : `${count(retained.position)} of ${count(retained.end)}`} />
        <Figure name="Shared configuration" value={configuration.current === 0 ? "none" : `revision ${count(configuration.current)}`} note={configuration.current === 0 ? "each node has its own" : undefined} />
      </dl>
      <Table caption="Nodes" columns={onDrain === null ? COLUMNS : [...COLUMNS, action]} rows={shown.nodes} rowKey={({ incarnation }) => incarnation} />
      <section aria-labelledby="counts">
        <h2 id="counts">Since this node started</h2>
        <Facts
          facts={[
            ["Clients redirected to other nodes", count(shown.clients_migrated)],
            ["Messages refused for lack of a quorum", count(shown.messages_timed_out)],
            ["Messages that a full log partition refused", count(shown.messages_requeued)],
            ["Sessions released from dead nodes", count(shown.sessions_freed)],
            ["Sessions adopted for their wills", count(shown.sessions_taken_over_for_wills)],
            ["Unreadable retained messages", count(retained.unreadable)],
          ]}
        />
      </section>
    </>
  );
}

function CommandDialog({ command, name, onDone, onClose }: { command: Command; name: string; onDone: () => void; onClose: () => void }): JSX.Element {
  const run = async (): Promise<void> => {
    await (command.what === "drain" ? request("POST /v1/cluster/drain", { query: { node: command.node } }) : request("POST /v1/cluster/rebalance", {}));
    onDone();
  };
  return command.what === "drain" ? (
    <Dialog title={`Drain ${command.node}?`} verb="Drain" action={run} onClose={onClose}>
      <p>All its clients are redirected to other nodes, and it accepts no new ones. Only a restart of the broker reverts this. Nothing is lost.</p>
    </Dialog>
  ) : (
    <Dialog title={`Rebalance ${name}?`} verb="Rebalance" action={run} onClose={onClose}>
      <p>If this node has more clients than its share, it redirects some of them to other nodes, where they reconnect.</p>
    </Dialog>
  );
}
