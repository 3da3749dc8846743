// A line chart of the last two minutes, as SVG, with the colours of the style sheet.

import { colourClass, dashes, mark } from "./marks.js";

/** @typedef {{ id: string, index: number, points: { at: number, value: number }[] }} Series */

const WINDOW_MS = 120_000;
/** A gap between two points longer than this breaks the line. */
const GAP_MS = 5_000;
const MARGIN = { top: 12, right: 12, bottom: 24, left: 40 };
const LABEL_HEIGHT = 15;
const LABEL_MAX = 16;
/** A chart narrower than this, in pixels, has fewer time labels. */
const NARROW = 420;

export class Chart {
  /** The position of the pointer, in pixels from the left, or null. */
  #pointerX = /** @type {number | null} */ (null);
  #now = 0;

  /**
   * @param {SVGSVGElement} svg
   * @param {ReadonlyMap<string, Series>} series
   */
  constructor(svg, series) {
    this.svg = svg;
    this.series = series;
    const point = (/** @type {PointerEvent} */ event) => {
      this.#pointerX = event.clientX - svg.getBoundingClientRect().left;
      this.draw(this.#now);
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", () => {
      this.#pointerX = null;
      this.draw(this.#now);
    });
    new ResizeObserver(() => this.draw(this.#now)).observe(svg);
  }

  /** @param {number} now the right edge, in milliseconds since 1970 */
  draw(now) {
    this.#now = now;
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (width === 0 || now === 0) return;
    const from = now - WINDOW_MS;
    const visible = [...this.series.values()].map((one) => ({
      ...one,
      points: one.points.filter(({ at }) => at >= from && at <= now),
    }));
    const ticks = niceTicks(visible.flatMap(({ points }) => points.map(({ value }) => value)));
    const low = ticks[0] ?? 0;
    const high = ticks[ticks.length - 1] ?? 1;
    const right = width - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    const x = (/** @type {number} */ at) => MARGIN.left + ((at - from) / WINDOW_MS) * (right - MARGIN.left);
    const y = (/** @type {number} */ value) => bottom - ((value - low) / (high - low)) * (bottom - MARGIN.top);

    const nodes = [];
    for (const tick of ticks) {
      nodes.push(svgNode("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }));
      nodes.push(label(String(tick), MARGIN.left - 6, y(tick) + 4, "end"));
    }
    for (const seconds of width < NARROW ? [120, 60, 0] : [120, 90, 60, 30, 0]) {
      const text = seconds === 0 ? "now" : `−${seconds} s`;
      const anchor = seconds === 0 ? "end" : seconds === 120 ? "start" : "middle";
      nodes.push(label(text, x(now - seconds * 1000), height - 6, anchor));
    }
    for (const { index, points } of visible) {
      const attributes = { class: `series ${colourClass(index)}`, "stroke-dasharray": dashes(index) };
      nodes.push(svgNode("path", { ...attributes, d: line(points, x, y) }));
    }
    const at = this.#pointerX === null ? now : from + ((this.#pointerX - MARGIN.left) / (right - MARGIN.left)) * WINDOW_MS;
    if (this.#pointerX !== null && at >= from && at <= now) {
      nodes.push(svgNode("line", { class: "pointer", x1: x(at), x2: x(at), y1: MARGIN.top, y2: bottom }));
    }
    nodes.push(...this.#values(visible, at, x, y, right));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...nodes);
  }

  /**
   * A mark and a label for the reading of each sensor that is nearest to a time.
   *
   * @param {Series[]} series
   * @param {number} time
   * @param {(at: number) => number} x
   * @param {(value: number) => number} y
   * @param {number} right
   */
  #values(series, time, x, y, right) {
    const found = series.flatMap(({ id, index, points }) => {
      const point = nearest(points, time);
      return point === undefined ? [] : [{ id, index, point, y: y(point.value) }];
    });
    found.sort((a, b) => a.y - b.y);
    const nodes = [];
    let lowest = -Infinity;
    for (const { id, index, point, y: top } of found) {
      const place = x(point.at);
      const shape = mark(index);
      shape.setAttribute("transform", `translate(${place} ${top})`);
      // Labels must not overlap.
      lowest = Math.max(top - 8, lowest + LABEL_HEIGHT);
      const isLeft = place > right / 2;
      const name = id.length > LABEL_MAX ? `${id.slice(0, LABEL_MAX - 1)}…` : id;
      const text = label(`${name} ${point.value.toFixed(1)}`, place + (isLeft ? -10 : 10), lowest, isLeft ? "end" : "start");
      text.setAttribute("class", "label");
      nodes.push(shape, text);
    }
    return nodes;
  }
}

/**
 * @param {Series["points"]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
function line(points, x, y) {
  let previous = -Infinity;
  return points
    .map(({ at, value }) => {
      const command = at - previous > GAP_MS ? "M" : "L";
      previous = at;
      return `${command}${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    })
    .join("");
}

/**
 * @param {Series["points"]} points
 * @param {number} time
 */
function nearest(points, time) {
  let best = points[0];
  for (const point of points) {
    if (best !== undefined && Math.abs(point.at - time) <= Math.abs(best.at - time)) best = point;
  }
  return best;
}

/**
 * Round numbers around all values, about five of them.
 *
 * @param {number[]} values
 */
export function niceTicks(values) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  if (low > high) return [0, 1];
  const rough = Math.max(high - low, 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const ticks = [];
  const first = Math.floor(low / step);
  const last = Math.max(Math.ceil(high / step), first + 1);
  for (let at = first; at <= last; at++) ticks.push(Number((at * step).toPrecision(6)));
  return ticks;
}

/**
 * @param {string} content
 * @param {number} x
 * @param {number} y
 * @param {string} anchor
 */
function label(content, x, y, anchor) {
  const node = svgNode("text", { x, y, "text-anchor": anchor });
  node.textContent = content;
  return node;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function svgNode(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}
