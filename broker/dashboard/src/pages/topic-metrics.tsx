// Message counts of the configured topic filters.

import type { JSX } from "preact";
import { get } from "../api/request";
import type { TopicTotals } from "../api/shapes";
import { bytes, count } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { Empty, LoadedContent, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";

const COLUMNS: readonly Column<TopicTotals>[] = [
  { key: "filter", head: "Topic filter", isRowHead: true, cell: ({ filter }) => <a href={href(["topics"], { filter })}>{filter}</a> },
  { key: "received", head: "Received", isNumber: true, cell: (topic) => count(topic.messages_received) },
  { key: "qos", head: "By QoS 0, 1, 2", isNumber: true, cell: (topic) => topic.messages_received_by_qos.map(count).join(" / ") },
  { key: "received-bytes", head: "Bytes received", isNumber: true, cell: (topic) => bytes(topic.bytes_received) },
  { key: "delivered", head: "Delivered", isNumber: true, cell: (topic) => count(topic.messages_delivered) },
  { key: "delivered-bytes", head: "Bytes delivered", isNumber: true, cell: (topic) => bytes(topic.bytes_delivered) },
  { key: "dropped", head: "Dropped", isNumber: true, cell: (topic) => count(topic.messages_dropped) },
];

export function TopicMetricsTable(): JSX.Element {
  const loaded = useLoad("topic-metrics", (signal) => get("/v1/topic-metrics", { signal }));
  return (
    <section aria-labelledby="topic-metrics">
      <div class="page-head">
        <h2 id="topic-metrics">Messages by topic filter</h2>
        <div class="actions">
          <Refresh loaded={loaded} />
        </div>
      </div>
      <LoadedContent loaded={loaded}>
        {({ topics }) =>
          topics.length === 0 ? (
            <Empty title="No topic filters are configured.">
              Add some to <code>metrics.topics</code> in the configuration, and reload it.
            </Empty>
          ) : (
            <Table caption="Messages by topic filter since the broker started to count" columns={COLUMNS} rows={topics} rowKey={({ filter }) => filter} />
          )
        }
      </LoadedContent>
    </section>
  );
}
