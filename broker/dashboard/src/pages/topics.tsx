// Topics with retained messages, as a tree or by a filter, and counts by topic filter.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Page } from "../ui/page";
import { go, href } from "../router";
import { RetainedList } from "./retained";
import { TopicMetricsTable } from "./topic-metrics";
import { Tree } from "./topic-tree";

export function TopicsPage({ query }: { query: Readonly<Record<string, string>> }): JSX.Element {
  const { filter = "", topic = "" } = query;
  return (
    <Page title="Topics">
      <FilterForm key={filter} filter={filter} />
      {filter === "" ? (
        <>
          <section aria-labelledby="tree">
            <h2 id="tree">Topics with retained messages</h2>
            <Tree />
          </section>
          <TopicMetricsTable />
        </>
      ) : (
        <RetainedList key={filter} filter={filter} topic={topic} />
      )}
    </Page>
  );
}

function FilterForm({ filter }: { filter: string }): JSX.Element {
  const [text, setText] = useState(filter);
  const submit = (event: Event): void => {
    event.preventDefault();
    go(href(["topics"], { filter: text }));
  };
  return (
    <form class="filters" role="search" onSubmit={submit}>
      <label class="field grows">
        Topic filter
        <input placeholder="power/+/kwh" spellcheck={false} autocapitalize="none" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        Find retained messages
      </button>
      {filter !== "" && (
        <a class="button" href={href(["topics"])}>
          Show the tree
        </a>
      )}
    </form>
  );
}
