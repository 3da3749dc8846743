import type { JSX } from "preact";
import { get } from "../api/request";
import type { ListedContract } from "../api/shapes";
import { count } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Policy } from "./contract";

const COLUMNS: readonly Column<ListedContract>[] = [
  { key: "name", head: "Contract", isRowHead: true, cell: ({ name }) => <a href={href(["contracts", name])}>{name}</a> },
  { key: "topics", head: "Topics", cell: ({ topics }) => <code>{topics}</code> },
  { key: "formats", head: "Formats", cell: ({ formats }) => formats.join(", ") },
  { key: "violation", head: "On violation", cell: ({ onViolation }) => <Policy policy={onViolation} /> },
  { key: "violations", head: "Violations", isNumber: true, cell: ({ violations }) => count(violations) },
];

export function ContractsPage(): JSX.Element {
  const loaded = useLoad("contracts", (signal) => get("/v1/contracts", { signal }));
  return (
    <Page title="Contracts" actions={<Refresh loaded={loaded} />}>
      <LoadedContent loaded={loaded}>
        {({ contracts }) =>
          contracts.length === 0 ? (
            <Empty title="There are no contracts: all payloads are accepted.">
              Set <code>contracts.path</code> to their folder, and add one with <code>tautwire contract add</code>.
            </Empty>
          ) : (
            <Table caption="Contracts" columns={COLUMNS} rows={contracts} rowKey={({ name }) => name} />
          )
        }
      </LoadedContent>
    </Page>
  );
}
