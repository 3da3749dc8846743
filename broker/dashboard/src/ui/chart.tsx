// A chart of the last hour, drawn by uPlot, with its figures below for screen readers.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { NONE } from "../format";

export interface Line {
  name: string;
  values: readonly (number | null)[];
}

interface ChartProps {
  title: string;
  stepMs: number;
  endsMs: number;
  lines: readonly Line[];
  show: (value: number | null) => string;
}

const HEIGHT_PX = 136;
/** Custom properties of the style sheet. */
const COLOURS = ["--line-1", "--line-2", "--line-3"];

export function Chart({ title, stepMs, endsMs, lines, show }: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const formatter = useRef(show);
  formatter.current = show;
  const names = lines.map(({ name }) => name).join("\n");
  const data = alignedData(stepMs, endsMs, lines);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = box.current;
    if (element === null) {
      return undefined;
    }
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element.clientWidth, names.split("\n"), (value) => formatter.current(value)), latest.current, element);
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names]);

  useEffect(() => plot.current?.setData(data), [stepMs, endsMs, lines]);

  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={box} class="chart-box" aria-hidden="true" />
      <table class="chart-figures">
        <caption class="hidden">{title}, the last hour</caption>
        <thead class="hidden">
          <tr>
            <th scope="col">Line</th>
            <th scope="col">Now</th>
            <th scope="col">Highest</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line, at) => (
            <tr key={line.name}>
              <th scope="row">
                <span class={`key key-${at + 1}`} aria-hidden="true" />
                {line.name}
              </th>
              <td>{show(last(line.values))}</td>
              <td class="faint">max {show(highest(line.values))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

function last(values: readonly (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function highest(values: readonly (number | null)[]): number | null {
  return values.reduce((high, value) => (high === null || (value !== null && value > high) ? value : high), null);
}

function alignedData(stepMs: number, endsMs: number, lines: readonly Line[]): uPlot.AlignedData {
  const length = Math.max(0, ...lines.map(({ values }) => values.length));
  const times = Array.from({ length }, (_, at) => (endsMs - (length - 1 - at) * stepMs) / 1_000);
  // A shorter line started later.
  const aligned = lines.map(({ values }) => [...Array.from({ length: length - values.length }, () => null), ...values]);
  return [times, ...aligned];
}

function options(width: number, names: readonly string[], show: (value: number | null) => string): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const grid = { stroke: colour("--chart-grid"), width: 1 };
  const axis = { stroke: colour("--text-faint"), grid, ticks: { show: false }, font: `11px ${style.fontFamily}` };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 24, 0, 0],
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, size: 24, values: (_plot, splits) => splits.map((split) => hourAndMinute(split)) },
      { ...axis, size: 72, space: 32, values: (_plot, splits) => splits.map((split) => show(split)) },
    ],
    series: [
      {},
      ...names.map((label, at) => ({
        label,
        stroke: colour(COLOURS[at % COLOURS.length] ?? ""),
        width: 1.5,
        points: { show: false },
        spanGaps: false,
        value: (_plot: uPlot, value: number | null) => (value === null ? NONE : show(value)),
      })),
    ],
  };
}

const HOUR_AND_MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

function hourAndMinute(atS: number): string {
  return HOUR_AND_MINUTE.format(atS * 1_000);
}
