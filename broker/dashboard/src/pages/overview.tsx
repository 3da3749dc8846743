// The state of the broker: rates, connections, limits, the log, drops, and the last hour.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/request";
import type { History, Overview, SeriesName } from "../api/shapes";
import { bytes, bytesRate, count, duration, micros, rate, words } from "../format";
import { useLoad } from "../load";
import { Chart } from "../ui/chart";
import { Empty, LoadedContent, Page } from "../ui/page";
import { Table } from "../ui/table";
import { Badge, Facts, Figure, Meter, type State } from "../ui/values";

const OVERVIEW_EVERY_MS = 3_000;
/** Values of the last hour are ten seconds apart. */
const HISTORY_EVERY_MS = 20_000;

export function OverviewPage(): JSX.Element {
  const overview = useLoad("overview", (signal) => get("/v1/overview", { signal }), { everyMs: OVERVIEW_EVERY_MS });
  const history = useLoad("history", (signal) => get("/v1/overview/history", { signal }), { everyMs: HISTORY_EVERY_MS });
  const rates = useRates(overview.data);
  return (
    <Page title="Overview">
      <LoadedContent loaded={overview}>{(data) => <Now now={data} rates={rates} />}</LoadedContent>
      <section aria-labelledby="hour">
        <h2 id="hour">The last hour</h2>
        <LoadedContent loaded={history}>{(data) => <Hour history={data} />}</LoadedContent>
      </section>
      {overview.data !== null && <Drops now={overview.data} />}
    </Page>
  );
}

interface Rates {
  messagesIn: number;
  messagesOut: number;
  bytesIn: number;
  bytesOut: number;
}

/** Per second, between the last two responses; `null` until there are two. */
function useRates(now: Overview | null): Rates | null {
  const [state, setState] = useState<{ last: Overview | null; rates: Rates | null }>({ last: null, rates: null });
  useEffect(() => {
    setState(({ last, rates }) => ({ last: now, rates: now === null || last === null ? null : (between(last, now) ?? rates) }));
  }, [now]);
  return state.rates;
}

function between(last: Overview, now: Overview): Rates | null {
  const seconds = (now.now_ms - last.now_ms) / 1_000;
  // The counters restart with the broker.
  if (seconds <= 0 || now.started_ms !== last.started_ms) {
    return null;
  }
  const per = (name: "messages_received" | "messages_sent" | "bytes_received" | "bytes_sent"): number => Math.max(0, now[name] - last[name]) / seconds;
  return { messagesIn: per("messages_received"), messagesOut: per("messages_sent"), bytesIn: per("bytes_received"), bytesOut: per("bytes_sent") };
}

const LOG_STATES: Record<Overview["log"]["state"], readonly [State, string]> = {
  ok: ["good", "writing"],
  full: ["bad", "disk full: nothing persistent is accepted. Free disk space, or raise the limit."],
  failed: ["bad", "disk failed: nothing persistent is accepted. See the broker's log."],
  off: ["plain", "off: state is kept only in memory"],
};

function Now({ now, rates }: { now: Overview; rates: Rates | null }): JSX.Element {
  const [state, told] = LOG_STATES[now.log.state];
  return (
    <>
      <dl class="figures">
        <Figure name="Messages in" value={rate(rates?.messagesIn)} note={bytesRate(rates?.bytesIn)} />
        <Figure name="Messages out" value={rate(rates?.messagesOut)} note={bytesRate(rates?.bytesOut)} />
        <Meter name="Connections" value={now.connections} limit={now.connections_limit} show={count} />
        <Meter name="Memory" value={now.memory_bytes} limit={now.memory_limit_bytes} show={bytes} />
        <Meter name="Disk" value={now.disk_bytes} limit={now.disk_limit_bytes} show={bytes} />
        <Figure name="Delivery, p99" value={micros(now.latency.delivery_p99_us)} note={`p50 ${micros(now.latency.delivery_p50_us)}`} />
        <Figure
          name="Acknowledgement, p99"
          value={micros(now.latency.acknowledgement_p99_us)}
          note={`p50 ${micros(now.latency.acknowledgement_p50_us)}`}
        />
        <Figure name="Journal write, p99" value={micros(now.log.sync_p99_us)} note={`p50 ${micros(now.log.sync_p50_us)}`} />
      </dl>
      <Facts
        facts={[
          ["Sessions", count(now.sessions)],
          ["Subscriptions", count(now.subscriptions)],
          ["Retained messages", `${count(now.retained_messages)} (${bytes(now.retained_bytes)})`],
          [
            "Journal",
            <Badge key="log" state={state}>
              {told}
            </Badge>,
          ],
          ["Version", now.version],
          ["Threads", count(now.threads)],
          ["Uptime", duration((now.now_ms - now.started_ms) / 1_000)],
        ]}
      />
    </>
  );
}

interface Drawn {
  title: string;
  lines: readonly (readonly [SeriesName, string])[];
  show: (value: number | null) => string;
}

const CHARTS: readonly Drawn[] = [
  { title: "Messages", lines: [["messages_received", "in"], ["messages_sent", "out"]], show: rate },
  { title: "Bytes", lines: [["bytes_received", "in"], ["bytes_sent", "out"]], show: bytesRate },
  { title: "Connections", lines: [["connections", "open"]], show: count },
  { title: "Dropped messages", lines: [["dropped", "dropped"]], show: rate },
  { title: "Memory and disk", lines: [["memory_bytes", "memory"], ["disk_bytes", "disk"]], show: bytes },
  {
    title: "Latency, p99",
    lines: [
      ["delivery_p99_us", "delivery"],
      ["acknowledgement_p99_us", "acknowledgement"],
      ["log_sync_p99_us", "journal write"],
    ],
    show: micros,
  },
];

function Hour({ history }: { history: History }): JSX.Element {
  const { step_ms: stepMs, end_ms: endsMs, series } = history;
  if (endsMs === null || series.connections.length < 2) {
    return <Empty title="No data yet.">The broker records a value every {stepMs / 1_000} seconds. Charts appear automatically.</Empty>;
  }
  return (
    <div class="charts">
      {CHARTS.map(({ title, lines, show }) => (
        <Chart key={title} title={title} stepMs={stepMs} endsMs={endsMs} lines={lines.map(([name, label]) => ({ name: label, values: series[name] }))} show={show} />
      ))}
    </div>
  );
}

/** Advice for each drop reason. The codes are those of metrics. */
const ADVICE: Record<string, string> = {
  output_full: "A client does not read fast enough. See limits.connection_output_bytes.",
  queue_full: "A session's queue is full. See limits.session_queue_messages.",
  queue_full_for_user: "The queues of one user's sessions are full. See limits.user_queue_messages.",
  memory_full: "The broker has reached its memory limit. See memory.limit.",
  expired: "Messages waited longer than their expiry.",
  too_large: "The messages exceed the Maximum Packet Size of clients.",
  not_authorized: "The access rules no longer allow the delivery.",
  untranscodable: "The payload cannot be transcoded to the format that a subscription requests.",
  outside_mount: "The topic is outside the client's mount point.",
  shard_queue_full: "A thread of the broker received messages faster than it processed them. See docs/operating/metrics.md.",
  no_member: "A shared subscription had no member that could receive it.",
};

function Drops({ now }: { now: Overview }): JSX.Element {
  const rows = Object.entries(now.drops)
    .filter(([, many]) => many > 0)
    .sort(([, one], [, other]) => other - one);
  return (
    <section aria-labelledby="drops">
      <h2 id="drops">Dropped messages, by reason</h2>
      {rows.length === 0 ? (
        <Empty title="No message has been dropped since the broker started." />
      ) : (
        <Table
          caption="Dropped messages since startup, by reason"
          columns={[
            { key: "reason", head: "Reason", isRowHead: true, cell: ([reason]) => words(reason) },
            { key: "count", head: "Messages", isNumber: true, cell: ([, many]) => count(many) },
            { key: "advice", head: "What it means", cell: ([reason]) => ADVICE[reason] ?? "See docs/operating/metrics.md." },
          ]}
          rows={rows}
          rowKey={([reason]) => reason}
        />
      )}
    </section>
  );
}
