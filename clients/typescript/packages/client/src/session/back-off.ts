/** The delays between attempts to connect. */
export interface BackOffOptions {
  /** The first delay in milliseconds, before jitter. Default: 500. */
  minDelayMs?: number | undefined;
  /** The longest delay in milliseconds. Default: 30,000. */
  maxDelayMs?: number | undefined;
  /** After how many consecutive failed attempts the client closes; with several servers, after how many rounds. Default: no limit. */
  maxAttempts?: number | undefined;
}

/** A connection that lasted this long resets the delay. */
const STABLE_MS = 10_000;

/** Exponential backoff with jitter, so that clients do not reconnect all at once after a restart of the server. */
export class BackOff {
  attempts = 0;
  private readonly minDelayMs: number;
  private readonly maxDelayMs: number;
  readonly maxAttempts: number;

  constructor(options: BackOffOptions) {
    this.minDelayMs = options.minDelayMs ?? 500;
    this.maxDelayMs = options.maxDelayMs ?? 30_000;
    this.maxAttempts = options.maxAttempts ?? Infinity;
  }

  /** Records how long a connection lasted, in milliseconds. */
  ended(ms: number): void {
    if (ms >= STABLE_MS) this.attempts = 0;
  }

  /** Returns the delay before the next attempt in milliseconds: between half and all of a bound that doubles each time. */
  next(): number {
    const bound = Math.min(this.maxDelayMs, this.minDelayMs * 2 ** Math.min(this.attempts, 30));
    this.attempts++;
    return bound * (0.5 + Math.random() / 2);
  }
}
