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
  waits: ["warn", "The message waits for the client, and arrives later."],
  one_of_many: ["warn", "The message goes to one member of a shared subscription. The client is one of them."],
  does_not_arrive: ["bad", "The client does not get the message."],
  elsewhere: ["warn", "This node cannot tell: it does not serve the client."],
};

export function WhyPage({ query }: { query: Readonly<Record<string, string>> }): JSX.Element {
  const { client = "", topic = "", qos = "1", mount_point: mountPoint = "" } = query;
  return (
    <Page title="Why does a message arrive, or not?">
      <WhyForm key={`${client}\n${topic}\n${qos}\n${mountPoint}`} client={client} topic={topic} qos={qos} mountPoint={mountPoint} />
      {client !== "" && topic !== "" ? (
        <Explained client={client} topic={topic} qos={qos} mountPoint={mountPoint} />
      ) : (
        <Empty title="Nothing is published.">Enter a client and a topic. The broker explains what would happen to a message published there now.</Empty>
      )}
    </Page>
  );
}

interface WhyQuery {
  client: string;
  topic: string;
  qos: string;
  mountPoint: string;
}

function WhyForm({ client, topic, qos, mountPoint }: WhyQuery): JSX.Element {
  const [asked, setAsked] = useState({ client, topic, qos, mountPoint });
  const submit = (event: Event): void => {
    event.preventDefault();
    go(href(["why"], { client: asked.client, topic: asked.topic, qos: asked.qos, mount_point: asked.mountPoint }));
  };
  return (
    <form class="filters" onSubmit={submit}>
      <label class="field">
        Client Identifier
        <input required spellcheck={false} autocapitalize="none" value={asked.client} onInput={(event) => setAsked({ ...asked, client: event.currentTarget.value })} />
      </label>
      <label class="field grows">
        Topic name
        <input required spellcheck={false} autocapitalize="none" value={asked.topic} onInput={(event) => setAsked({ ...asked, topic: event.currentTarget.value })} />
      </label>
      <QosField value={asked.qos} onChange={(qos) => setAsked({ ...asked, qos })} />
      <label class="field">
        Mount point, if any
        <input spellcheck={false} value={asked.mountPoint} onInput={(event) => setAsked({ ...asked, mountPoint: event.currentTarget.value })} />
      </label>
      <button type="submit" class="primary">
        Ask
      </button>
    </form>
  );
}

function Explained({ client, topic, qos, mountPoint }: WhyQuery): JSX.Element {
  const loaded = useLoad(`${client}\n${topic}\n${qos}\n${mountPoint}`, (signal) =>
    get("/v1/clients/{client}/why", { path: { client }, query: { topic, qos, mount_point: mountPoint === "" ? null : mountPoint }, signal }),
  );
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
                {findings.map(({ code, text, change }) => (
                  <li key={`${code} ${text}`}>
                    {text}
                    {change !== "" && <span class="faint">To change it: {change}.</span>}
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
