// Pausing, resuming and testing a bridge.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../api/request";
import type { Bridge, BridgeTestResult } from "../api/shapes";
import { useAction } from "../load";
import { Dialog } from "../ui/dialog";
import { Problem } from "../ui/page";

/** Buttons for a bridge; `onDone` loads its status again. */
export function BridgeCommands({ bridge: { name, state }, onDone }: { bridge: Bridge; onDone: () => void }): JSX.Element {
  const [isPausing, setPausing] = useState(false);
  const [results, setResults] = useState<readonly BridgeTestResult[] | null>(null);
  const { isRunning, error, run } = useAction();
  const path = { bridge: name };
  const pause = async (): Promise<void> => {
    await request("POST /v1/bridges/{bridge}/pause", { path });
    onDone();
  };
  const resume = async (): Promise<void> => {
    await request("POST /v1/bridges/{bridge}/resume", { path });
    onDone();
  };
  const test = async (): Promise<void> => {
    setResults(null);
    setResults((await request("POST /v1/bridges/{bridge}/test", { path })).addresses);
  };
  return (
    <>
      <div class="actions">
        {state === "paused" ? (
          <button type="button" disabled={isRunning} onClick={() => run(resume)} aria-label={`Resume ${name}`}>
            Resume
          </button>
        ) : (
          <button type="button" onClick={() => setPausing(true)} aria-label={`Pause ${name}`}>
            Pause…
          </button>
        )}
        <button type="button" disabled={isRunning} onClick={() => run(test)} aria-label={`Test ${name}`}>
          Test
        </button>
      </div>
      <div role="status">
        {results?.map(({ address, error: refused }) => <p key={address}>{refused === null ? `${address} accepts the bridge.` : `${address}: ${refused.message}`}</p>)}
      </div>
      {error !== null && <Problem error={error} />}
      {isPausing && (
        <Dialog title={`Pause ${name}?`} verb="Pause" action={pause} onClose={() => setPausing(false)}>
          <p>The bridge is disconnected until it is resumed or the broker restarts. Messages for the other broker wait in its session.</p>
        </Dialog>
      )}
    </>
  );
}
