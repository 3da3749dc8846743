/** When to try again. */
export interface BackOffOptions {
  /** The first delay in milliseconds, before jitter. Default: 500. */
  minDelayMs?: number | undefined;
  /** The longest delay in milliseconds. Default: 30,000. */
  maxDelayMs?: number | undefined;
  /** How many attempts fail in a row before the client gives up and closes; of several servers, how many rounds. Default: no limit. */
  maxAttempts?: number | undefined;
}

/** A connection that lasted so long has worked: the next delay is the first one again. */
const STABLE_MS = 10_000;

/** Delays that double, with jitter, so that the clients of a server that restarts do not come all at once. */
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

  /** A connection ended after so many milliseconds of service. */
  lasted(ms: number): void {
    if (ms >= STABLE_MS) this.attempts = 0;
  }

  /** The delay before the next attempt in milliseconds: between half and all of a bound that doubles. */
  next(): number {
    const bound = Math.min(this.maxDelayMs, this.minDelayMs * 2 ** Math.min(this.attempts, 30));
    this.attempts++;
    return bound * (0.5 + Math.random() / 2);
  }
}
