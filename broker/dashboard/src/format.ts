// Human-readable numbers and times.

const COUNT = new Intl.NumberFormat("en-GB");
const ONE_DIGIT = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY_AND_CLOCK = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });

/** Unknown or not applicable. */
export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : COUNT.format(value);
}

/** A rate per second. */
export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : `${(value < 100 ? ONE_DIGIT : COUNT).format(value < 100 ? value : Math.round(value))}/s`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) {
    return NONE;
  }
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < BYTE_UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${ONE_DIGIT.format(rest)} ${BYTE_UNITS[unit] ?? ""}`;
}

export function bytesRate(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : `${bytes(value)}/s`;
}

export function micros(value: number | null | undefined): string {
  if (value === null || value === undefined) {
    return NONE;
  }
  return value < 1_000 ? `${COUNT.format(Math.round(value))} µs` : `${ONE_DIGIT.format(value / 1_000)} ms`;
}

export function percent(part: number, whole: number): string {
  return whole <= 0 ? NONE : `${ONE_DIGIT.format((100 * part) / whole)} %`;
}

const STEPS: readonly [seconds: number, name: string][] = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"],
];

/** The two largest units: `3 days 4 hours`. */
export function duration(seconds: number): string {
  const parts: string[] = [];
  let rest = Math.max(0, Math.floor(seconds));
  for (const [size, name] of STEPS) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many > 0) {
      parts.push(`${COUNT.format(many)} ${name}${many === 1 ? "" : "s"}`);
    } else if (parts.length > 0) {
      break;
    }
    if (parts.length === 2) {
      break;
    }
  }
  return parts.length === 0 ? "0 seconds" : parts.join(" ");
}

/** How long ago, or how long until then. */
export function relative(atMs: number, nowMs: number): string {
  const seconds = (nowMs - atMs) / 1_000;
  if (Math.abs(seconds) < 1) {
    return "now";
  }
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** The time of day. */
export function clock(atMs: number): string {
  return CLOCK.format(atMs);
}

export function dayAndClock(atMs: number): string {
  return DAY_AND_CLOCK.format(atMs);
}

/** `queue_full` as `Queue full`. */
export function words(code: string): string {
  const text = code.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const MAX_EXPIRY_S = 0xffff_ffff;

/** When a session expires after its connection. */
export function expiry(seconds: number | null): string {
  if (seconds === null || seconds >= MAX_EXPIRY_S) {
    return "never";
  }
  return seconds === 0 ? "when the client disconnects" : `${duration(seconds)} after the client disconnects`;
}
