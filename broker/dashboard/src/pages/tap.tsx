// Published messages, live: by a filter, at a limited rate.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { readEvents } from "../api/events";
import type { ApiError } from "../api/request";
import type { TapMessage } from "../api/shapes";
import { bytes, count, NONE } from "../format";
import { asApiError } from "../load";
import { clientHref, go, href } from "../router";
import { Empty, Page, Problem } from "../ui/page";
import { oneLine, PayloadView } from "../ui/payload";
import { Table } from "../ui/table";
import { Clock } from "../ui/values";
import { useMaySeePayloads } from "../session";

const RATE_DEFAULT = 50;
const RATE_MAX = 500;
/** The maximum number of messages on the page; older ones are dropped. */
const SHOWN_MAX = 200;
/** New messages are rendered together, at this interval. */
const DRAW_EVERY_MS = 250;
const LINE_MAX_CHARS = 160;

interface Numbered extends TapMessage {
  number: number;
}

interface Flow {
  state: "off" | "opening" | "open" | "ended";
  /** Newest first. */
  messages: readonly Numbered[];
  received: number;
  skipped: number;
  error: ApiError | null;
}

const NOTHING: Flow = { state: "off", messages: [], received: 0, skipped: 0, error: null };

export function TapPage({ query }: { query: Readonly<Record<string, string>> }): JSX.Element {
  const maySee = useMaySeePayloads();
  return (
    <Page title="Live tap">
      {maySee ? (
        <Tap filter={query["filter"] ?? ""} rate={query["rate"] ?? String(RATE_DEFAULT)} />
      ) : (
        <Empty title="You are not allowed to see payloads.">
          The tap shows published messages. It requires the permission <code>payloads</code>, which no role includes.
        </Empty>
      )}
    </Page>
  );
}

function Tap({ filter, rate }: { filter: string; rate: string }): JSX.Element {
  const [asked, setAsked] = useState({ filter, rate });
  const { flow, start, stop } = useTap();
  const [chosen, setChosen] = useState<Numbered | null>(null);
  const isOn = flow.state === "opening" || flow.state === "open";
  const submit = (event: Event): void => {
    event.preventDefault();
    setChosen(null);
    go(href(["tap"], { filter: asked.filter, rate: asked.rate }));
    start(asked.filter, Number(asked.rate));
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <label class="field grows">
          Topic filter
          <input required placeholder="power/#" spellcheck={false} autocapitalize="none" value={asked.filter} onInput={(event) => setAsked({ ...asked, filter: event.currentTarget.value })} />
        </label>
        <label class="field">
          Maximum per second
          <input type="number" required min={1} max={RATE_MAX} value={asked.rate} onInput={(event) => setAsked({ ...asked, rate: event.currentTarget.value })} />
        </label>
        <button type="submit" class="primary">
          {isOn ? "Start again" : "Start"}
        </button>
        {isOn && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
      </form>
      <p role="status">{STATES[flow.state]}</p>
      {flow.error !== null && <Problem error={flow.error} />}
      {flow.received > 0 && (
        <p class="faint">
          {count(flow.received)} messages shown{flow.skipped > 0 && `, ${count(flow.skipped)} skipped by the rate limit`}. The page keeps the last {SHOWN_MAX}.
        </p>
      )}
      {chosen !== null && (
        <section aria-labelledby="chosen">
          <div class="page-head">
            <h2 id="chosen">Message on {chosen.topic}</h2>
            <button type="button" onClick={() => setChosen(null)}>
              Close
            </button>
          </div>
          <PayloadView payload={chosen} />
          {chosen.truncated === true && <p class="faint">The tap has only the beginning of {bytes(chosen.payload_bytes)}.</p>}
        </section>
      )}
      {flow.messages.length > 0 && <Table caption="Messages, newest first" columns={columns(setChosen)} rows={flow.messages} rowKey={({ number }) => String(number)} />}
    </>
  );
}

const STATES: Record<Flow["state"], string> = {
  off: "Enter a filter and start. The broker records each tap in its audit log.",
  opening: "Opening the tap…",
  open: "The tap is open.",
  ended: "The tap is closed.",
};

const columns = (choose: (message: Numbered) => void): { key: string; head: string; isRowHead?: boolean; isNumber?: boolean; cell: (message: Numbered) => JSX.Element | string }[] => [
  { key: "at", head: "Time", cell: ({ at_ms: atMs }) => <Clock atMs={atMs} /> },
  { key: "topic", head: "Topic", isRowHead: true, cell: ({ topic }) => <code>{topic}</code> },
  {
    key: "payload",
    head: "Payload",
    cell: (message) => (
      <button type="button" class="plain" onClick={() => choose(message)}>
        <span class="hidden">Show the message on {message.topic}: </span>
        <code>{oneLine(message, LINE_MAX_CHARS)}</code>
      </button>
    ),
  },
  { key: "size", head: "Size", isNumber: true, cell: (message) => bytes(message.payload_bytes) },
  { key: "qos", head: "QoS", isNumber: true, cell: ({ qos, retain }) => `${qos}${retain ? ", retain" : ""}` },
  { key: "contract", head: "Contract", cell: ({ contract }) => contract ?? NONE },
  { key: "client", head: "Client", cell: ({ client_id: id }) => (id === null ? NONE : <a href={clientHref(id, null)}>{id}</a>) },
];

/** A tap that is closed with its page. */
function useTap(): { flow: Flow; start: (filter: string, rate: number) => void; stop: () => void } {
  const [flow, setFlow] = useState<Flow>(NOTHING);
  const running = useRef<Running | null>(null);
  const stop = (): void => {
    running.current?.stop();
    running.current = null;
  };
  useEffect(() => stop, []);
  const start = (filter: string, rate: number): void => {
    stop();
    running.current = new Running(filter, rate, setFlow);
  };
  return { flow, start, stop };
}

class Running {
  readonly #controller = new AbortController();
  readonly #show: (flow: Flow) => void;
  readonly #timer: number;
  #flow: Flow = { ...NOTHING, state: "opening" };
  #isDrawn = false;

  constructor(filter: string, rate: number, show: (flow: Flow) => void) {
    this.#show = show;
    this.#timer = window.setInterval(() => this.#draw(), DRAW_EVERY_MS);
    this.#draw();
    readEvents(
      "/v1/tap",
      { filter, rate },
      this.#controller.signal,
      () => this.#change({ state: "open" }),
      ({ name, data }) => this.#take(name, data),
    ).then(
      () => this.#end(null),
      (error: unknown) => this.#end(this.#controller.signal.aborted ? null : asApiError(error)),
    );
  }

  stop(): void {
    this.#controller.abort();
    this.#end(null);
  }

  #take(name: string, data: string): void {
    if (name === "message") {
      const received = this.#flow.received + 1;
      const message = { ...(JSON.parse(data) as TapMessage), number: received };
      this.#change({ received, messages: [message, ...this.#flow.messages.slice(0, SHOWN_MAX - 1)] });
    } else if (name === "skipped") {
      const { count: many } = JSON.parse(data) as { count: number };
      this.#change({ skipped: this.#flow.skipped + many });
    }
  }

  #change(change: Partial<Flow>): void {
    this.#flow = { ...this.#flow, ...change };
    this.#isDrawn = false;
  }

  #draw(): void {
    if (!this.#isDrawn) {
      this.#isDrawn = true;
      this.#show(this.#flow);
    }
  }

  #end(error: ApiError | null): void {
    if (this.#flow.state === "ended") {
      return;
    }
    window.clearInterval(this.#timer);
    this.#change({ state: "ended", error });
    this.#draw();
  }
}
