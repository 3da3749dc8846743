import type { Clock } from "@tautwire/client";
import { settled } from "./waiting.js";

interface Timer {
  at: number;
  callback: () => void;
}

/** A clock that the test advances. */
export class FakeClock implements Clock {
  time = 1_700_000_000_000;
  /** Timers fire only at multiples of this, as in a hidden tab. */
  granularityMs = 1;
  private readonly timers = new Set<Timer>();

  now(): number {
    return this.time;
  }

  setTimeout(callback: () => void, delayMs: number): Timer {
    const at = Math.ceil((this.time + delayMs) / this.granularityMs) * this.granularityMs;
    const timer = { at, callback };
    this.timers.add(timer);
    return timer;
  }

  clearTimeout(timer: unknown): void {
    this.timers.delete(timer as Timer);
  }

  get pending(): number {
    return this.timers.size;
  }

  /** The time until the next timer, in milliseconds. */
  get nextInMs(): number {
    return Math.min(...[...this.timers].map(({ at }) => at)) - this.time;
  }

  /** Advances the time, and fires every timer at its time. */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    for (;;) {
      await settled();
      const next = [...this.timers].sort((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > end) break;
      this.timers.delete(next);
      this.time = Math.max(this.time, next.at);
      next.callback();
    }
    this.time = end;
    await settled();
  }

  /** Suspends the machine: time passes, and timers fire late and all at once. */
  async sleep(ms: number): Promise<void> {
    this.time += ms;
    for (const timer of [...this.timers].sort((a, b) => a.at - b.at)) {
      if (timer.at > this.time || !this.timers.delete(timer)) continue;
      timer.callback();
    }
    await settled();
  }
}
