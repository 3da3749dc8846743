// Retained messages by a filter: shown one by one, deleted together.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, get, request } from "../api/request";
import type { Deleted, RetainedMessage } from "../api/shapes";
import { bytes, count, NONE } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { Dialog } from "../ui/dialog";
import { Empty, LoadedContent, Refresh } from "../ui/page";
import { PayloadView } from "../ui/payload";
import { Table } from "../ui/table";
import { Facts, When } from "../ui/values";
import { Pager } from "../ui/pager";
import { useMay, useMaySeePayloads } from "../session";

const PER_PAGE = 100;

export function RetainedList({ filter, topic }: { filter: string; topic: string }): JSX.Element {
  /** The start of each page shown so far, except the first. */
  const [trail, setTrail] = useState<readonly string[]>([]);
  const after = trail.at(-1) ?? null;
  const loaded = useLoad(after ?? "", async (signal) => ({ ...(await get("/v1/retained", { query: { filter, after, limit: PER_PAGE }, signal })), answered: trail }), { keepsPrevious: true });
  const [isDeleting, setIsDeleting] = useState(false);
  const mayOperate = useMay("operate");
  return (
    <>
      {topic !== "" && <MessageSection key={topic} topic={topic} />}
      <section aria-labelledby="retained">
        <div class="page-head">
          <h2 id="retained">Retained messages on {filter}</h2>
          <div class="actions">
            <Refresh loaded={loaded} />
            {mayOperate && (loaded.data?.matched ?? 0) > 0 && (
              <button type="button" onClick={() => setIsDeleting(true)}>
                Delete all {count(loaded.data?.matched)}…
              </button>
            )}
          </div>
        </div>
        <LoadedContent loaded={loaded}>
          {({ matched, messages, next, answered }) =>
            messages.length === 0 ? (
              <Empty title="No retained message matches this filter." />
            ) : (
              <>
                <Table caption={`Retained messages on ${filter}`} columns={columns(filter)} rows={messages} rowKey={(message) => message.topic} isBusy={loaded.isLoading} />
                <Pager trail={answered} next={next} onTurn={setTrail}>
                  <span>
                    {count(answered.length * PER_PAGE + 1)} to {count(answered.length * PER_PAGE + messages.length)} of {count(matched)}
                  </span>
                </Pager>
              </>
            )
          }
        </LoadedContent>
      </section>
      {isDeleting && loaded.data !== null && (
        <DeleteDialog filter={filter} matched={loaded.data.matched} onDone={loaded.reload} onClose={() => setIsDeleting(false)} />
      )}
    </>
  );
}

const columns = (filter: string): { key: string; head: string; isRowHead?: boolean; isNumber?: boolean; cell: (message: RetainedMessage) => JSX.Element | string }[] => [
  {
    key: "topic",
    head: "Topic",
    isRowHead: true,
    cell: ({ topic }) => (
      <a href={href(["topics"], { filter, topic })}>
        <code>{topic}</code>
      </a>
    ),
  },
  { key: "qos", head: "QoS", isNumber: true, cell: ({ qos }) => String(qos) },
  { key: "size", head: "Payload", isNumber: true, cell: (message) => (message.payload_bytes === null ? "on disk" : bytes(message.payload_bytes)) },
  { key: "expires", head: "Expires", cell: (message) => (message.expires_ms === null ? "never" : <When atMs={message.expires_ms} />) },
  { key: "type", head: "Content type", cell: (message) => message.content_type ?? NONE },
  {
    key: "contract",
    head: "Contract",
    cell: ({ contract }) => (contract === null ? NONE : <a href={href(["contracts", contract])}>{contract}</a>),
  },
];

function MessageSection({ topic }: { topic: string }): JSX.Element {
  const maySee = useMaySeePayloads();
  return (
    <section aria-labelledby="message">
      <h2 id="message">Message on {topic}</h2>
      {maySee ? (
        <MessageDetails topic={topic} />
      ) : (
        <Empty title="You are not allowed to see payloads.">
          This requires the permission <code>payloads</code>, which no role includes.
        </Empty>
      )}
    </section>
  );
}

function MessageDetails({ topic }: { topic: string }): JSX.Element {
  const loaded = useLoad(topic, (signal) => get("/v1/retained/{topic}", { path: { topic }, signal }));
  return (
    <LoadedContent loaded={loaded}>
      {(message) => (
        <>
          <Facts
            facts={[
              ["QoS", String(message.qos)],
              ["Payload", bytes(message.payload_bytes)],
              ["Content type", message.content_type ?? "none"],
              ["Contract", message.contract ?? "none"],
              ["Expires", message.expires_ms === null ? "never" : <When key="expires" atMs={message.expires_ms} />],
            ]}
          />
          <PayloadView payload={message} />
        </>
      )}
    </LoadedContent>
  );
}

function DeleteDialog({ filter, matched, onDone, onClose }: { filter: string; matched: number; onDone: () => void; onClose: () => void }): JSX.Element {
  const remove = async (): Promise<void> => {
    let answer: Deleted;
    let refused = 0;
    do {
      answer = await request("DELETE /v1/retained", { query: { filter } });
      refused += answer.refused;
    } while (answer.more && answer.deleted > 0);
    onDone();
    if (refused > 0) {
      throw new ApiError(503, "not_all_deleted", `${count(refused)} of the messages could not be deleted.`);
    }
  };
  return (
    <Dialog title={`Delete ${count(matched)} retained messages?`} verb="Delete" action={remove} onClose={onClose}>
      <p>
        All retained messages on <code>{filter}</code> are deleted permanently, including those that arrive meanwhile. Subscribers receive an empty message for each.
      </p>
    </Dialog>
  );
}
