// The current configuration, the changes of a reload, and the reload.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, request } from "../api/request";
import type { ConfigDiff } from "../api/shapes";
import { useLoad } from "../load";
import { Dialog } from "../ui/dialog";
import { Empty, LoadedContent, Page, Refresh } from "../ui/page";
import { useMay } from "../session";

export function ConfigPage(): JSX.Element {
  const running = useLoad("config", (signal) => get("/v1/config", { signal }));
  const diff = useLoad("diff", (signal) => get("/v1/config/diff", { signal }));
  const mayOperate = useMay("operate");
  const [isReloading, setIsReloading] = useState(false);
  const reload = async (): Promise<void> => {
    await request("POST /v1/config/reload", {});
    running.reload();
    diff.reload();
  };
  return (
    <Page
      title="Configuration"
      actions={
        <>
          <Refresh loaded={diff} />
          {mayOperate && (
            <button type="button" onClick={() => setIsReloading(true)}>
              Reload…
            </button>
          )}
        </>
      }
    >
      <section aria-labelledby="diff">
        <h2 id="diff">Changes on reload</h2>
        <LoadedContent loaded={diff}>{(data) => <Changes diff={data} />}</LoadedContent>
      </section>
      <section aria-labelledby="running">
        <h2 id="running">Current configuration</h2>
        <LoadedContent loaded={running}>{(toml) => <Running toml={toml} />}</LoadedContent>
      </section>
      {isReloading && (
        <Dialog title="Reload the configuration?" verb="Reload" action={reload} onClose={() => setIsReloading(false)}>
          <p>The broker reads its configuration and all files that it refers to again. If there is any error, nothing changes. Clients stay connected.</p>
        </Dialog>
      )}
    </Page>
  );
}

const LISTS: readonly (readonly [keyof ConfigDiff, string])[] = [
  ["applied", "Takes effect immediately"],
  ["applied_to_new_connections", "Takes effect for new connections"],
  ["pending_restart", "Takes effect after a restart"],
  ["listeners_added", "Added listeners"],
  ["listeners_removed", "Removed listeners, with their clients"],
];

function Changes({ diff }: { diff: ConfigDiff }): JSX.Element {
  const lists = LISTS.map(([name, title]) => [title, diff[name] as string[]] as const).filter(([, lines]) => lines.length > 0);
  if (lists.length === 0) {
    return <Empty title="No changes: the files match the current configuration." />;
  }
  return (
    <dl class="changes">
      {lists.map(([title, lines]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            <ul>
              {lines.map((line) => (
                <li key={line}>
                  <code>{line}</code>
                </li>
              ))}
            </ul>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Running({ toml }: { toml: string }): JSX.Element {
  const [withComments, setWithComments] = useState(false);
  const text = withComments ? toml : withoutComments(toml);
  return (
    <>
      <p>
        <label>
          <input type="checkbox" checked={withComments} onChange={(event) => setWithComments(event.currentTarget.checked)} /> with explanations
        </label>
      </p>
      <pre tabIndex={0} role="group" aria-label="Configuration">
        {text}
      </pre>
    </>
  );
}

/** A line of a comment begins with #; the broker writes no multi-line strings. */
function withoutComments(toml: string): string {
  return toml
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .join("\n")
    .replaceAll(/\n{2,}(?!\[)/g, "\n")
    .trim();
}
