// Keep alive by what the clock says, not by counting ticks: timers of background tabs come late, once a minute or not at
// all while a machine sleeps. Whoever has the time asks: on a timer, on bytes that arrive, when the page is shown again.

/**
 * The part of the keep alive after which silence is broken. Timers of a hidden page come once a minute, so that silence lasts up to
 * this part and a minute: with the usual keep alive of 60 s, less than the 90 s after which a server gives up.
 */
const PING_AFTER = 0.45;
/** A tick that comes so much later than it was due says that the program was not running. */
const LATE_MS = 1_000;

/** What is to be done now: nothing, send a PINGREQ `[MQTT-3.1.2-20]`, or give the server up. */
export type Due = "nothing" | "ping" | "dead";

/** Times are in milliseconds, of a clock that may jump. */
export class KeepAlive {
  private pingAfterMs = Infinity;
  private sentAt = 0;
  private receivedAt = 0;
  /** When the PINGREQ that is not answered was sent; -1 if there is none. */
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

  /** Bytes have come: the server is there. */
  received(now: number): void {
    this.receivedAt = now;
  }

  answered(): void {
    this.pingAt = -1;
  }

  /** When {@link check} is to be called at the latest. */
  deadline(): number {
    if (this.pingAt >= 0) return Math.max(this.pingAt, this.receivedAt) + this.pingTimeoutMs;
    // Who only sends would not see that nobody is there, who only receives would be taken for dead.
    return Math.min(this.sentAt, this.receivedAt) + this.pingAfterMs;
  }

  /** `isReading`: whether an answer could be seen at all. */
  check(now: number, isReading: boolean): Due {
    // The clock was set back: count again from here.
    this.sentAt = Math.min(this.sentAt, now);
    this.receivedAt = Math.min(this.receivedAt, now);
    this.pingAt = Math.min(this.pingAt, now);
    const late = now - this.deadline();
    if (late < 0) return "nothing";
    if (this.pingAt >= 0 && isReading && late < LATE_MS) return "dead";
    // Asleep or not reading: the answer may be waiting unseen. Ask once more, and then be there for the answer.
    this.pingAt = this.sentAt = now;
    return "ping";
  }
}
