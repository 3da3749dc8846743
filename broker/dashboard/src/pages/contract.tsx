// One contract: its policy, recent violations, and its schema.

import type { JSX } from "preact";
import { get } from "../api/request";
import type { Contract, ViolationSample } from "../api/shapes";
import { count } from "../format";
import { useLoad } from "../load";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Badge, Facts, When } from "../ui/values";

const EVERY_MS = 10_000;

const CONSEQUENCES: Record<Contract["onViolation"], string> = {
  observe: "counted and delivered to subscribers",
  reject: "refused",
  quarantine: "moved to $quarantine/TOPIC",
  disconnect: "refused, and the publisher is disconnected",
};

export function ContractPage({ name }: { name: string }): JSX.Element {
  const loaded = useLoad("contract", (signal) => get("/v1/contracts/{name}", { path: { name }, signal }), { everyMs: EVERY_MS });
  return (
    <Page title={`Contract ${name}`} actions={<Refresh loaded={loaded} />}>
      <LoadedContent loaded={loaded}>
        {({ contracts: [contract], schemas, violations, samples }) =>
          contract === undefined ? (
            <Empty title="There is no such contract." />
          ) : (
            <>
              <Described contract={contract} violations={violations} />
              <section aria-labelledby="samples">
                <h2 id="samples">Recent violations</h2>
                <Samples violations={violations} samples={samples} />
              </section>
              {schemas.map(({ sha256, file, source }) => (
                <section key={sha256} aria-labelledby={`schema-${sha256}`}>
                  <h2 id={`schema-${sha256}`}>Schema {file}</h2>
                  <pre tabIndex={0} role="group" aria-label={`Source of ${file}`}>
                    {source}
                  </pre>
                </section>
              ))}
            </>
          )
        }
      </LoadedContent>
    </Page>
  );
}

/** The policy for violations. `observe` is highlighted, since it delivers invalid payloads. */
export function Policy({ policy }: { policy: Contract["onViolation"] }): JSX.Element {
  return policy === "observe" ? <Badge state="warn">observe: delivers</Badge> : <>{policy}</>;
}

function Described({ contract, violations }: { contract: Contract; violations: number }): JSX.Element {
  const ties = Object.entries(contract.topicFields ?? {}).map(([level, field]) => `${level} = ${field}`);
  return (
    <Facts
      facts={[
        ["Topics", <code key="topics">{contract.topics}</code>],
        ["Formats", contract.formats.join(", ")],
        ["Message type", contract.message ?? "the whole schema"],
        ["On violation", <Policy key="policy" policy={contract.onViolation} />],
        ["Violating payloads are", CONSEQUENCES[contract.onViolation]],
        ["Unknown fields", contract.unknownFields],
        ["Levels tied to fields", ties.length === 0 ? "none" : ties.join(", ")],
        ["Violations since startup", count(violations)],
      ]}
    />
  );
}

function Samples({ samples, violations }: { samples: readonly ViolationSample[]; violations: number }): JSX.Element {
  if (samples.length === 0) {
    return violations === 0 ? (
      <Empty title="No violations since the broker started." />
    ) : (
      <Empty title="No reasons recorded." />
    );
  }
  return (
    <Table
      caption="Violations by reason, newest first"
      columns={SAMPLE_COLUMNS}
      rows={samples.toReversed()}
      rowKey={({ path, rule, topic, last_ms: atMs }) => `${path} ${rule} ${topic} ${atMs}`}
    />
  );
}

const SAMPLE_COLUMNS: readonly Column<ViolationSample>[] = [
  { key: "path", head: "Field", isRowHead: true, cell: ({ path }) => <code>{path === "" ? "(the whole payload)" : path}</code> },
  { key: "expected", head: "Expected", cell: ({ expected }) => expected },
  { key: "rule", head: "Rule", cell: ({ rule }) => <code>{rule}</code> },
  { key: "topic", head: "Topic", cell: ({ topic }) => <code>{topic}</code> },
  { key: "count", head: "Messages", isNumber: true, cell: (sample) => count(sample.count) },
  { key: "last", head: "Last", cell: ({ last_ms: atMs }) => <When atMs={atMs} /> },
];
