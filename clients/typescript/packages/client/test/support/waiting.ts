const LIMIT_MS = 10_000;

/** Waits for a promise, up to a limit. */
export async function within<T>(promise: Promise<T>, what: string, limitMs = LIMIT_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`no ${what} within ${limitMs} ms`));
    }, limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits until everything has happened that needs no time. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves with the error with which a promise rejects. */
export async function failure(promise: Promise<unknown>): Promise<Error & { code?: string; reason?: number; detail?: string; status?: number }> {
  try {
    await within(promise, "rejection");
  } catch (error) {
    return error as Error;
  }
  throw new Error("it did not reject");
}

/** Resolves with the next event of a client. */
export function event<T>(on: (listener: (event: T) => void) => () => void): Promise<T> {
  return within(
    new Promise((resolve) => {
      const off = on((value) => {
        off();
        resolve(value);
      });
    }),
    "event",
  );
}
