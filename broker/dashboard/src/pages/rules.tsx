// All access rules, and explanations of decisions.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, request } from "../api/request";
import type { Explanation, ExplainRequest, Rule } from "../api/shapes";
import { count, NONE } from "../format";
import { useAction, useLoad } from "../load";
import { Empty, LoadedContent, Page, Problem } from "../ui/page";
import { Pager } from "../ui/pager";
import { Table, type Column } from "../ui/table";
import { Badge, Facts } from "../ui/values";
import { QosField } from "../ui/qos";

const PER_PAGE = 100;

export function RulesPage(): JSX.Element {
  return (
    <Page title="Access rules">
      <RulesList />
      <section aria-labelledby="explain">
        <h2 id="explain">Which rule decides?</h2>
        <Explain />
      </section>
    </Page>
  );
}

function RulesList(): JSX.Element {
  /** The start of each page shown so far, except the first. */
  const [trail, setTrail] = useState<readonly string[]>([]);
  const after = trail.at(-1) ?? null;
  const loaded = useLoad(after ?? "", async (signal) => ({ ...(await get("/v1/rules", { query: { after, limit: PER_PAGE }, signal })), answered: trail }), { keepsPrevious: true });
  return (
    <LoadedContent loaded={loaded}>
      {({ unrestricted: open, total: all, rules, next, answered }) =>
        open ? (
          <Empty title="There are no access rules: clients may publish and subscribe to everything.">
            Set <code>acl.file</code> to a rule file.
          </Empty>
        ) : (
          <>
            <p>Of the rules of a client's roles, the first that matches decides. If none matches, the request is denied.</p>
            <Table caption="Access rules, in the order of evaluation" columns={COLUMNS} rows={rules} rowKey={({ number }) => String(number)} isBusy={loaded.isLoading} />
            <Pager trail={answered} next={next} onTurn={setTrail}>
              <span>
                {count(rules[0]?.number ?? 0)} to {count(rules.at(-1)?.number ?? 0)} of {count(all)}
              </span>
            </Pager>
          </>
        )
      }
    </LoadedContent>
  );
}

const COLUMNS: readonly Column<Rule>[] = [
  { key: "number", head: "Rule", isNumber: true, cell: ({ number }) => count(number) },
  { key: "role", head: "Role", cell: ({ role }) => role },
  { key: "effect", head: "Effect", cell: ({ effect }) => <Badge state={effect === "allow" ? "good" : "bad"}>{effect}</Badge> },
  { key: "actions", head: "Actions", cell: ({ actions }) => actions.join(", ") },
  { key: "filter", head: "Topics", isRowHead: true, cell: ({ filter, text }) => <code title={text}>{filter}</code> },
  { key: "listener", head: "Listener", cell: ({ listener }) => listener ?? "all others" },
  { key: "place", head: "Place", cell: ({ file, line }) => `${file}:${line}` },
];

interface ExplainForm {
  clientId: string;
  user: string;
  listener: string;
  roles: string;
  action: "publish" | "subscribe";
  topic: string;
  qos: string;
  retain: boolean;
}

const START: ExplainForm = { clientId: "", user: "", listener: "", roles: "", action: "publish", topic: "", qos: "0", retain: false };

function Explain(): JSX.Element {
  const [asked, setAsked] = useState(START);
  const [answer, setAnswer] = useState<Explanation | null>(null);
  const { isRunning, error, run } = useAction();
  const submit = (event: Event): void => {
    event.preventDefault();
    setAnswer(null);
    run(async () => setAnswer(await request("POST /v1/explain", { body: explainRequest(asked) })));
  };
  const text = (name: "clientId" | "user" | "listener" | "roles" | "topic", label: string, required = false): JSX.Element => (
    <label class="field">
      {label}
      <input required={required} spellcheck={false} autocapitalize="none" value={asked[name]} onInput={(event) => setAsked({ ...asked, [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <>
      <form class="filters" onSubmit={submit}>
        {text("clientId", "Client Identifier", true)}
        {text("user", "User, if any")}
        {text("listener", "Listener, if not the default")}
        {text("roles", "Roles from authentication, comma-separated")}
        <label class="field">
          Action
          <select value={asked.action} onChange={(event) => setAsked({ ...asked, action: event.currentTarget.value === "publish" ? "publish" : "subscribe" })}>
            <option value="publish">publish to</option>
            <option value="subscribe">subscribe to</option>
          </select>
        </label>
        {text("topic", asked.action === "publish" ? "Topic" : "Topic filter", true)}
        <QosField value={asked.qos} onChange={(qos) => setAsked({ ...asked, qos })} />
        {asked.action === "publish" && (
          <label>
            <input type="checkbox" checked={asked.retain} onChange={(event) => setAsked({ ...asked, retain: event.currentTarget.checked })} /> retained
          </label>
        )}
        <button type="submit" class="primary" disabled={isRunning}>
          Explain
        </button>
      </form>
      {error !== null && <Problem error={error} />}
      {answer !== null && <Explained answer={answer} />}
    </>
  );
}

function explainRequest({ clientId, user, listener, roles, action, topic, qos, retain }: ExplainForm): ExplainRequest {
  const names = roles
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  return {
    client_id: clientId,
    ...(user === "" ? {} : { user }),
    ...(listener === "" ? {} : { listener }),
    ...(names.length === 0 ? {} : { roles: names }),
    action,
    ...(action === "publish" ? { topic } : { filter: topic }),
    qos: qos === "2" ? 2 : qos === "1" ? 1 : 0,
    ...(action === "publish" && retain ? { retain } : {}),
  };
}

function Explained({ answer }: { answer: Explanation }): JSX.Element {
  const { allowed, request: asked, rule, example, reason, roles, notes } = answer;
  return (
    <>
      <p class="outcome" role="status">
        <Badge state={allowed ? "good" : "bad"}>{allowed ? "allowed" : "denied"}</Badge> {asked}
      </p>
      <Facts
        facts={[
          ["Why", reason],
          ["Rule", rule === null ? "none matches" : <RuleText key="rule" rule={rule} />],
          ["Example topic", example ?? NONE],
          ["Roles of the client", roles.length === 0 ? "none" : roles.map(({ role, reason }) => `${role} (${reason})`).join("; ")],
        ]}
      />
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
    </>
  );
}

function RuleText({ rule: { file, line, role, text } }: { rule: NonNullable<Explanation["rule"]> }): JSX.Element {
  return (
    <>
      <code>{text}</code>
      <span class="faint">
        {" "}
        role {role}, {file}:{line}
      </span>
    </>
  );
}
