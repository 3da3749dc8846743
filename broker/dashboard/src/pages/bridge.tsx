// One bridge: its connection, what it has forwarded, and its rules.

import type { JSX } from "preact";
import { get } from "../api/request";
import type { BridgeDetail, BridgeRule } from "../api/shapes";
import { bytes, count, NONE } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, Facts, When } from "../ui/values";
import { useMay } from "../session";
import { BridgeCommands } from "./bridge-commands";
import { BRIDGES_EVERY_MS, BridgeState } from "./bridges";

const COLUMNS: readonly Column<BridgeRule>[] = [
  { key: "filter", head: "Topic filter", isRowHead: true, cell: ({ filter }) => filter || NONE },
  { key: "direction", head: "Direction", cell: ({ direction }) => direction },
  { key: "qos", head: "QoS", isNumber: true, cell: ({ qos }) => qos },
  { key: "local", head: "Prefix here", cell: (rule) => rule.local_prefix || NONE },
  { key: "remote", head: "Prefix there", cell: (rule) => rule.remote_prefix || NONE },
  { key: "retain", head: "Retain", cell: ({ retain }) => retain },
  { key: "rate", head: "Rate", isNumber: true, cell: ({ rate }) => (rate === null ? NONE : `${count(rate)}/s`) },
  {
    key: "refused",
    head: "Subscription",
    cell: ({ refused }) => (refused === null ? "accepted" : <Badge state="bad">{`${refused.by === "local" ? "this broker" : "the other broker"}: ${refused.reason}`}</Badge>),
  },
];

export function BridgePage({ name }: { name: string }): JSX.Element {
  const loaded = useLoad(`bridge ${name}`, (signal) => get("/v1/bridges/{bridge}", { path: { bridge: name }, signal }), { everyMs: BRIDGES_EVERY_MS });
  const mayOperate = useMay("operate");
  return (
    <Page title={`Bridge ${name}`} actions={<Refresh loaded={loaded} />}>
      <LoadedContent loaded={loaded}>
        {(bridge) => (
          <>
            {bridge.error !== null && (
              <p class="banner">
                <strong>The last connection or attempt failed:</strong> {bridge.error.message}
              </p>
            )}
            {mayOperate && <BridgeCommands bridge={bridge} onDone={loaded.reload} />}
            <Connection bridge={bridge} />
            <section aria-labelledby="counts">
              <h2 id="counts">Since the bridge started</h2>
              <Counts bridge={bridge} />
            </section>
            <section aria-labelledby="rules">
              <h2 id="rules">Rules</h2>
              <Table caption="Rules" columns={COLUMNS} rows={bridge.rules} rowKey={(rule) => `${rule.direction} ${rule.local_prefix} ${rule.remote_prefix} ${rule.filter}`} />
            </section>
          </>
        )}
      </LoadedContent>
    </Page>
  );
}

function Connection({ bridge }: { bridge: BridgeDetail }): JSX.Element {
  const { addresses, session, mount_point: mountPoint } = bridge;
  return (
    <Facts
      facts={[
        ["State", <BridgeState key="state" state={bridge.state} />],
        ["Since", <When key="since" atMs={bridge.since_unix_s * 1_000} />],
        ["Other broker", bridge.address ?? NONE],
        ["All addresses", addresses.join(", ")],
        ["Next attempt", <When key="next" atMs={bridge.next_attempt_unix_s === null ? null : bridge.next_attempt_unix_s * 1_000} />],
        ["Protocol", `MQTT ${bridge.protocol}`],
        ["Start", bridge.start],
        ["Client Identifier there", bridge.client_id],
        [
          "Session here",
          <a key="session" href={href(["clients", session], mountPoint === null ? {} : { mount_point: mountPoint })}>
            {session}
          </a>,
        ],
        ["Queued", bridge.queued_bytes === null ? NONE : `${count(bridge.queued_messages)} (${bytes(bridge.queued_bytes)})`],
        ["Dropped by the session", count(bridge.dropped_messages)],
      ]}
    />
  );
}

function Counts({ bridge }: { bridge: BridgeDetail }): JSX.Element {
  return (
    <Facts
      facts={[
        ["Connections", count(bridge.connections)],
        ["Failures", count(bridge.failures)],
        ["Messages sent", count(bridge.messages_out)],
        ["Messages received", count(bridge.messages_in)],
        ["Refused by the other broker", count(bridge.refused_out)],
        ["Refused by this broker", count(bridge.refused_in)],
        ["Dropped: in a loop", count(bridge.looped)],
        ["Dropped: no rule", count(bridge.unmatched)],
        ["Dropped: topic too long or invalid", count(bridge.unmappable)],
        ["Pauses by a rate", count(bridge.rate_pauses)],
      ]}
    />
  );
}
