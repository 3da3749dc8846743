// The list of bans, and lifting them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, request } from "../api/request";
import type { Ban } from "../api/shapes";
import { NONE } from "../format";
import { useLoad } from "../load";
import { href } from "../router";
import { Dialog } from "../ui/dialog";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { When } from "../ui/values";
import { useMay } from "../session";

export function BansPage(): JSX.Element {
  const loaded = useLoad("bans", (signal) => get("/v1/bans", { signal }));
  const mayOperate = useMay("operate");
  const [lifted, setLifted] = useState<Ban | null>(null);
  const columns: Column<Ban>[] = [
    { key: "kind", head: "Kind", cell: (ban) => target(ban)[0] },
    { key: "who", head: "Who", isRowHead: true, cell: (ban) => target(ban)[1] },
    { key: "until", head: "Until", cell: (ban) => (ban.until_unix_s === null ? "lifted manually" : <When atMs={ban.until_unix_s * 1_000} />) },
    { key: "reason", head: "Reason", cell: ({ reason }) => (reason === "" ? NONE : reason) },
  ];
  if (mayOperate) {
    columns.push({
      key: "lift",
      head: "Action",
      cell: (ban) => (
        <button type="button" onClick={() => setLifted(ban)} aria-label={`Lift the ban of ${target(ban)[1]}`}>
          Lift…
        </button>
      ),
    });
  }
  return (
    <Page title="Bans" actions={<Refresh loaded={loaded} />}>
      <LoadedContent loaded={loaded}>
        {({ bans }) =>
          bans.length === 0 ? (
            <Empty title="There are no bans.">
              To ban a client, its user or its address, open <a href={href(["clients"])}>the client</a>.
            </Empty>
          ) : (
            <Table caption="Bans" columns={columns} rows={bans} rowKey={(ban) => target(ban).join(" ")} />
          )
        }
      </LoadedContent>
      {lifted !== null && <LiftDialog ban={lifted} onDone={loaded.reload} onClose={() => setLifted(null)} />}
    </Page>
  );
}

function LiftDialog({ ban, onDone, onClose }: { ban: Ban; onDone: () => void; onClose: () => void }): JSX.Element {
  const { client_id, user, network } = ban;
  const lift = async (): Promise<void> => {
    await request("DELETE /v1/bans", { body: { client_id, user, network } });
    onDone();
  };
  return (
    <Dialog title={`Lift the ban of ${target(ban)[1]}?`} verb="Lift" action={lift} onClose={onClose}>
      <p>The banned clients may connect again.</p>
    </Dialog>
  );
}

function target({ client_id, user, network }: Ban): readonly [kind: string, name: string] {
  if (client_id !== undefined) {
    return ["client", client_id];
  }
  return user !== undefined ? ["user", user] : ["network", network ?? NONE];
}
