// The bridges to other brokers, with the rates of their messages.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/request";
import type { Bridge } from "../api/shapes";
import { count, NONE, rate } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, type State } from "../ui/values";
import { useMay } from "../session";
import { BridgeCommands } from "./bridge-commands";

export const BRIDGES_EVERY_MS = 5_000;

const STATES: Record<Bridge["state"], readonly [State, string]> = {
  connecting: ["bad", "connecting"],
  connected: ["good", "connected"],
  paused: ["warn", "paused"],
  idle: ["plain", "idle"],
  standby: ["plain", "another node runs it"],
  stopped: ["bad", "stopped"],
};

export function BridgeState({ state }: { state: Bridge["state"] }): JSX.Element {
  const [colour, text] = STATES[state];
  return <Badge state={colour}>{text}</Badge>;
}

/** A bridge with its messages per second. */
type Row = Bridge & { rates: Rates | undefined };

const COLUMNS: readonly Column<Row>[] = [
  { key: "name", head: "Bridge", isRowHead: true, cell: ({ name }) => <a href={href(["bridges", name])}>{name}</a> },
  { key: "state", head: "State", cell: ({ state }) => <BridgeState state={state} /> },
  { key: "address", head: "Other broker", cell: ({ address, addresses }) => address ?? addresses.join(", ") },
  { key: "out", head: "Sent", isNumber: true, cell: ({ rates }) => rate(rates?.out) },
  { key: "in", head: "Received", isNumber: true, cell: ({ rates }) => rate(rates?.in) },
  { key: "queued", head: "Queued", isNumber: true, cell: (bridge) => count(bridge.queued_messages) },
  { key: "error", head: "Last error", cell: ({ error }) => error?.message ?? NONE },
];

export function BridgesPage(): JSX.Element {
  const loaded = useLoad("bridges", (signal) => get("/v1/bridges", { signal }), { everyMs: BRIDGES_EVERY_MS });
  const rates = useRates(loaded.data?.bridges ?? null, loaded.atMs);
  const mayOperate = useMay("operate");
  const commands: Column<Row> = { key: "commands", head: "Action", cell: (bridge) => <BridgeCommands bridge={bridge} onDone={loaded.reload} /> };
  return (
    <Page title="Bridges" actions={<Refresh loaded={loaded} />}>
      <LoadedContent loaded={loaded}>
        {({ bridges }) =>
          bridges.length === 0 ? (
            <Empty title="There are no bridges.">
              To forward messages to or from another broker, add a <code>[[bridge]]</code> table to the configuration, and reload it.
            </Empty>
          ) : (
            <Table caption="Bridges" columns={mayOperate ? [...COLUMNS, commands] : COLUMNS} rows={bridges.map((bridge) => ({ ...bridge, rates: rates.get(bridge.name) }))} rowKey={({ name }) => name} />
          )
        }
      </LoadedContent>
    </Page>
  );
}

interface Rates {
  out: number;
  in: number;
}

/** Messages per second between the last two responses, by bridge. */
function useRates(bridges: readonly Bridge[] | null, atMs: number | null): ReadonlyMap<string, Rates> {
  const [state, setState] = useState<{ last: readonly Bridge[]; lastMs: number | null; rates: ReadonlyMap<string, Rates> }>({ last: [], lastMs: null, rates: new Map() });
  useEffect(() => {
    if (bridges !== null && atMs !== null) {
      setState(({ last, lastMs, rates }) => ({ last: bridges, lastMs: atMs, rates: lastMs === null || atMs <= lastMs ? rates : between(last, bridges, (atMs - lastMs) / 1_000) }));
    }
  }, [bridges, atMs]);
  return state.rates;
}

/** A bridge that a reload has restarted counts from zero, and has no rate once. */
function between(before: readonly Bridge[], now: readonly Bridge[], seconds: number): ReadonlyMap<string, Rates> {
  const rates = new Map<string, Rates>();
  for (const bridge of now) {
    const last = before.find(({ name }) => name === bridge.name);
    if (last !== undefined && last.messages_out <= bridge.messages_out && last.messages_in <= bridge.messages_in) {
      rates.set(bridge.name, { out: (bridge.messages_out - last.messages_out) / seconds, in: (bridge.messages_in - last.messages_in) / seconds });
    }
  }
  return rates;
}
