// Loading of data from the broker: once, or periodically while the page is visible.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api/request";

export interface Loaded<T> {
  /** The last successful response, even if a later request has failed. */
  data: T | null;
  error: ApiError | null;
  isLoading: boolean;
  /** The time of `data`, by the clock of this machine. */
  atMs: number | null;
  reload: () => void;
}

/**
 * Loads again when `key` changes, and `everyMs` after the last response while the page is visible.
 * With `keeps`, the response for the old key stays until the new one has arrived: show it only with values from the same response.
 */
export function useLoad<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  { everyMs, keepsPrevious = false }: { everyMs?: number; keepsPrevious?: boolean } = {},
): Loaded<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: ApiError | null; isLoading: boolean; atMs: number | null }>({
    key,
    data: null,
    error: null,
    isLoading: true,
    atMs: null,
  });
  const [asked, setAsked] = useState(0);
  const current = useRef(load);
  current.current = load;

  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    setState((old) => (old.key === key || keepsPrevious ? { ...old, key, isLoading: true } : { key, data: null, error: null, isLoading: true, atMs: null }));

    const again = (): void => {
      if (everyMs !== undefined && !controller.signal.aborted) {
        window.clearTimeout(timer);
        timer = window.setTimeout(ask, everyMs);
      }
    };
    const ask = (): void => {
      window.clearTimeout(timer);
      if (document.hidden && everyMs !== undefined) {
        // `onVisible` continues.
        return;
      }
      current.current(controller.signal).then(
        (data) => {
          if (!controller.signal.aborted) {
            setState({ key, data, error: null, isLoading: false, atMs: Date.now() });
            again();
          }
        },
        (error: unknown) => {
          if (!controller.signal.aborted) {
            setState((old) => ({ ...old, error: asApiError(error), isLoading: false }));
            again();
          }
        },
      );
    };
    const onVisible = (): void => {
      if (!document.hidden && everyMs !== undefined) {
        ask();
      }
    };
    document.addEventListener("visibilitychange", onVisible);
    ask();
    return () => {
      controller.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [key, everyMs, keepsPrevious, asked]);

  return { data: state.data, error: state.error, isLoading: state.isLoading, atMs: state.atMs, reload: () => setAsked((times) => times + 1) };
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, "page_failed", error instanceof Error ? error.message : String(error));
}

/** An action of the user, and its result. */
export function useAction(): { isRunning: boolean; error: ApiError | null; run: (what: () => Promise<void>) => void; clear: () => void } {
  const [state, setState] = useState<{ isRunning: boolean; error: ApiError | null }>({ isRunning: false, error: null });
  const run = (what: () => Promise<void>): void => {
    setState({ isRunning: true, error: null });
    what().then(
      () => setState({ isRunning: false, error: null }),
      (error: unknown) => setState({ isRunning: false, error: asApiError(error) }),
    );
  };
  return { ...state, run, clear: () => setState({ isRunning: false, error: null }) };
}
