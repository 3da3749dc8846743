// Keep alive by the clock, not by counting ticks: the timers of background tabs fire late, once a minute, or not at all while the
// machine is suspended. The caller checks on a timer, when bytes arrive, and when the page becomes visible.

/**
 * The part of the keep alive after which a PINGREQ is sent. Timers of a hidden page fire once a minute, so that the PINGREQ can be a
 * minute late: with the usual keep alive of 60 s, still within the 90 s after which a server closes the connection.
 */
const PING_AFTER = 0.45;
/** A tick that is this late means that the program was suspended. */
const LATE_MS = 1_000;

/** The action that is due: none, send a PINGREQ `[MQTT-3.1.2-20]`, or close the connection. */
export type KeepAliveAction = "nothing" | "ping" | "dead";

/** The keep alive of a connection. Times are in milliseconds, of a clock that may jump. */
export class KeepAlive {
  private pingAfterMs = Infinity;
  private sentAt = 0;
  private receivedAt = 0;
  /** When the pending PINGREQ was sent; -1 if there is none. */
  private pingAt = -1;

  constructor(private readonly pingTimeoutMs: number) {}

  start(keepAliveS: number, now: number): void {
    this.pingAfterMs = keepAliveS === 0 ? Infinity : keepAliveS * 1000 * PING_AFTER;
    this.sentAt = this.receivedAt = now;
    this.pingAt = -1;
  }

  stop(): void {
    this.pingAfterMs = Infinity;
    this.pingAt = -1;
  }

  sent(now: number): void {
    this.sentAt = now;
  }

  /** Bytes have arrived, so the server is alive. */
  received(now: number): void {
    this.receivedAt = now;
  }

  pong(): void {
    this.pingAt = -1;
  }

  /** The latest time at which {@link check} must be called. */
  deadline(): number {
    if (this.pingAt >= 0) return Math.max(this.pingAt, this.receivedAt) + this.pingTimeoutMs;
    // A client that only sends must notice a dead server; one that only receives must not seem dead to the server.
    return Math.min(this.sentAt, this.receivedAt) + this.pingAfterMs;
  }

  /** Returns the action that is due. `isReading`: whether a PINGRESP would be read. */
  check(now: number, isReading: boolean): KeepAliveAction {
    // If the clock was set back, start again from now.
    this.sentAt = Math.min(this.sentAt, now);
    this.receivedAt = Math.min(this.receivedAt, now);
    this.pingAt = Math.min(this.pingAt, now);
    const late = now - this.deadline();
    if (late < 0) return "nothing";
    if (this.pingAt >= 0 && isReading && late < LATE_MS) return "dead";
    // While suspended or not reading, a PINGRESP may have been missed. Ping once more before closing the connection.
    this.pingAt = this.sentAt = now;
    return "ping";
  }
}
