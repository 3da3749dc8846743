// Why a message reaches a client, or does not.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "../api/request";
import type { Why } from "../api/shapes";
import { useLoad } from "../load";
import { clientHref, go, href } from "../router";
import { Empty, LoadedContent, Page } from "../ui/page";
import { Badge, type State } from "../ui/values";
import { QosField } from "../ui/qos";
import { Drops } from "./client";

const OUTCOMES: Record<Why["outcome"], readonly [State, string]> = {
  arrives: ["good", "The client gets the message at once."],
  queued: ["warn", "The message waits for the client, and arrives later."],
  shared: ["warn", "The message goes to one member of a shared subscription. The client is one of them."],
  does_not_arrive: ["bad", "The client does not get the message."],
  other_node: ["warn", "This node cannot tell: it does not serve the client."],
};

/** The query of the page, with the names of its URL parameters. */
interface WhyQuery {
  client: string;
  mount_point: string;
  topic: string;
  qos: string;
  /** `true`, or empty. */
  retain: string;
  payload: string;
  payload_bytes: string;
  publisher: string;
}

export function WhyPage({ query }: { query: Readonly<Record<string, string>> }): JSX.Element {
  const { client = "", mount_point = "", topic = "", qos = "1", retain = "", payload = "", payload_bytes = "", publisher = "" } = query;
  const asked = { client, mount_point, topic, qos, retain, payload, payload_bytes, publisher };
  const key = JSON.stringify(asked);
  return (
    <Page title="Why does a message arrive, or not?">
      <WhyForm key={key} shown={asked} />
      {client !== "" && topic !== "" ? (
        <Explained key={key} asked={asked} />
      ) : (
        <Empty title="Nothing is published.">Enter a client and a topic. The broker explains what would happen to a message published there now.</Empty>
      )}
    </Page>
  );
}

function WhyForm({ shown }: { shown: WhyQuery }): JSX.Element {
  const [asked, setAsked] = useState(shown);
  const submit = (event: Event): void => {
    event.preventDefault();
    go(href(["why"], { ...asked }));
  };
  const text = (name: keyof WhyQuery, label: string, more: JSX.IntrinsicElements["input"] = {}, grows = false): JSX.Element => (
    <label class={grows ? "field grows" : "field"}>
      {label}
      <input spellcheck={false} autocapitalize="none" {...more} value={asked[name]} onInput={(event) => setAsked({ ...asked, [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <form class="filters" onSubmit={submit}>
      {text("client", "Client Identifier", { required: true })}
      {text("topic", "Topic name", { required: true }, true)}
      <QosField value={asked.qos} onChange={(qos) => setAsked({ ...asked, qos })} />
      <label>
        <input type="checkbox" checked={asked.retain === "true"} onChange={(event) => setAsked({ ...asked, retain: event.currentTarget.checked ? "true" : "" })} /> retained
      </label>
      {text("publisher", "Client Identifier of the publisher, if any")}
      {text("payload", "Payload, if any", { disabled: asked.payload_bytes !== "" }, true)}
      {text("payload_bytes", "Payload length in bytes", { type: "number", min: 0, disabled: asked.payload !== "" })}
      {text("mount_point", "Mount point, if any")}
      <button type="submit" class="primary">
        Ask
      </button>
    </form>
  );
}

function Explained({ asked }: { asked: WhyQuery }): JSX.Element {
  const { client, mount_point: mountPoint, ...message } = asked;
  const loaded = useLoad(JSON.stringify(asked), (signal) => get("/v1/clients/{client}/why", { path: { client }, query: { ...nonEmpty(message), topic: message.topic, mount_point: mountPoint === "" ? null : mountPoint }, signal }));
  return (
    <LoadedContent loaded={loaded}>
      {({ outcome, findings, drops }) => {
        const [state, description] = OUTCOMES[outcome];
        return (
          <>
            <p class="outcome" role="status">
              <Badge state={state}>{outcome.replaceAll("_", " ")}</Badge> {description} <a href={clientHref(client, mountPoint === "" ? null : mountPoint)}>Show the client</a>
            </p>
            <section aria-labelledby="findings">
              <h2 id="findings">Findings</h2>
              <ol class="findings">
                {findings.map(({ code, text, remedy }) => (
                  <li key={`${code} ${text}`}>
                    {text}
                    {remedy !== "" && <span class="faint">To change it: {remedy}.</span>}
                  </li>
                ))}
              </ol>
            </section>
            <Drops drops={drops} />
          </>
        );
      }}
    </LoadedContent>
  );
}

/** The fields that are not empty. */
function nonEmpty(fields: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
}
