// The topic tree, level by level; children are loaded when a level is opened.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "../api/request";
import type { TopicLevel, TopicsPage } from "../api/shapes";
import { count } from "../format";
import { asApiError, useLoad } from "../load";
import { href } from "../router";
import { Empty, LoadedContent, Problem } from "../ui/page";
import type { ApiError } from "../api/request";

const LEVELS_PER_REQUEST = 200;

export function Tree(): JSX.Element {
  return <Level below={null} />;
}

/** `below`: the parent topic; `null` for the first level. An empty string is a topic that begins with a slash. */
function Level({ below }: { below: string | null }): JSX.Element {
  const first = useLoad(`topics ${below ?? "\n"}`, (signal) => ask(below, null, signal));
  const [more, setMore] = useState<{ levels: TopicLevel[]; next: string | null } | null>(null);
  const [failure, setFailure] = useState<ApiError | null>(null);
  return (
    <LoadedContent loaded={first}>
      {(page) => {
        const levels = more === null ? page.levels : [...page.levels, ...more.levels];
        const next = more === null ? page.next : more.next;
        const loadMore = (): void => {
          ask(below, next).then(
            (following) => setMore({ levels: [...(more?.levels ?? []), ...following.levels], next: following.next }),
            (error: unknown) => setFailure(asApiError(error)),
          );
        };
        if (levels.length === 0) {
          return below === null ? <NoMessages /> : <p class="faint">There are no retained messages here any more.</p>;
        }
        return (
          <>
            <ul class="tree">
              {levels.map((level) => (
                <Branch key={level.topic} level={level} />
              ))}
            </ul>
            {failure !== null && <Problem error={failure} />}
            {next !== null && (
              <button type="button" onClick={loadMore}>
                Show more
              </button>
            )}
          </>
        );
      }}
    </LoadedContent>
  );
}

function ask(below: string | null, after: string | null, signal?: AbortSignal): Promise<TopicsPage> {
  const query = { parent: below, after, limit: LEVELS_PER_REQUEST };
  return get("/v1/topics", signal === undefined ? { query } : { query, signal });
}

function Branch({ level }: { level: TopicLevel }): JSX.Element {
  const [isOpen, setIsOpen] = useState(false);
  const name = level.level === "" ? "(empty level)" : level.level;
  return (
    <li>
      <span class="branch">
        {level.descendants > 0 ? (
          <button type="button" class="plain" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
            <span aria-hidden="true">{isOpen ? "▾ " : "▸ "}</span>
            <code>{name}</code>
          </button>
        ) : (
          <code class="leaf">{name}</code>
        )}
        {level.retained && (
          <a href={href(["topics"], { filter: level.topic, topic: level.topic })} aria-label={`Message on ${level.topic}`}>
            message
          </a>
        )}
        {level.descendants > 0 && (
          <a href={href(["topics"], { filter: `${level.topic}/#` })} aria-label={`${count(level.descendants)} below ${level.topic}`}>
            {count(level.descendants)} below
          </a>
        )}
      </span>
      {isOpen && <Level below={level.topic} />}
    </li>
  );
}

function NoMessages(): JSX.Element {
  return (
    <Empty title="No message is retained.">
      Publish one, for example with <code>tautwire pub -r -t demo/state -m on</code>.
    </Empty>
  );
}
