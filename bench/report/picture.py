"""docs/images/beside-peers.svg: CPU per message and memory per connection compared with other brokers, for the README.

A picture that stands by itself: no script, no font and no style from elsewhere, its own background, and colours for light and
dark. Every bar starts at zero, and every column has a scale of its own, because the slowest broker at QoS 2 would otherwise
flatten all others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import compare
import metrics
from results import OURS, Result, is_ours, is_peer, title_of

WIDTH = 800
MARGIN = 20
NAMES_WIDTH = 104
COLUMN_GAP = 8
VALUE_WIDTH = 62
ROW_HEIGHT, BAR_HEIGHT = 21, 14

STYLE = """
.card{fill:#fff;stroke:#d0d7de}.text{fill:#1f2328}.soft{fill:#59636e}.ours{fill:#0067a5}.other{fill:#b4bcc4}
text{font:13px -apple-system,"Segoe UI",system-ui,Helvetica,Arial,sans-serif}
.title{font-size:16px;font-weight:600}.head{font-weight:600}.strong{font-weight:700}.small{font-size:11.5px}.end{text-anchor:end}
@media (prefers-color-scheme:dark){
.card{fill:#14171a;stroke:#3d444d}.text{fill:#f0f6fc}.soft{fill:#a3abb3}.ours{fill:#56b4e9}.other{fill:#59636e}}
"""


@dataclass(frozen=True)
class Column:
    """The bars of one figure. `shown_as`: a figure with the same number in another unit, whose unit is shown."""

    head: str
    figure: compare.Headline
    shown_as: str


@dataclass(frozen=True)
class Panel:
    title: str
    note: str
    columns: Sequence[Column]


# Seconds per million deliveries are microseconds per delivery.
_CPU_SHOWN = "cpu_us"
PANELS = (
    Panel(
        "CPU time per delivered message: lower is better",
        "microseconds of broker CPU; one publisher sends 16-byte messages to one subscriber, or to 100, at full speed",
        [
            *(Column(f"1 to 1, QoS {qos}", compare.Headline("", compare.CPU, compare.flood(1, 1, qos)), _CPU_SHOWN) for qos in (0, 1, 2)),
            Column("1 to 100, QoS 0", compare.Headline("", compare.CPU, compare.flood(1, 100, 0)), _CPU_SHOWN),
        ],
    ),
    Panel(
        "Memory per connection: lower is better",
        "growth of the broker process per connection at 10,000 connections; the kernel's socket buffers come on top",
        [
            Column(head, compare.Headline("", "bytes_per_connection@10000", {"kind": "idle", "subscribe": subscribe}), "rss_bytes")
            for head, subscribe in (("idle", False), ("idle, with one subscription", True))
        ],
    ),
)


@dataclass(frozen=True)
class Bars:
    head: str
    values: dict[str, float]
    shown: dict[str, str]


def render(results: list[Result]) -> str | None:
    """Returns the chart; `None` if a figure has not been measured."""
    found = [(panel, [(column, result) for column in panel.columns if (result := column.figure.find(results))]) for panel in PANELS]
    if any(len(columns) < len(panel.columns) for panel, columns in found):
        return None
    drawn = [(panel, [_bars(column, result) for column, result in columns]) for panel, columns in found]
    used = [result for _, columns in found for _, result in columns]

    parts, top = [], MARGIN
    for panel, columns in drawn:
        inside, height = _panel(panel, columns, top)
        parts.append(inside)
        top += height
    for line in _source(used):
        top += 15
        parts.append(_text(MARGIN, top, line, "soft small"))
    height = top + MARGIN - 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title desc">\n'
        f'<title id="title">Tautwire beside other MQTT brokers: CPU per message and memory per connection</title>\n'
        f'<desc id="desc">{escape(_description(drawn))}</desc>\n<style>{STYLE}</style>\n'
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _bars(column: Column, result: Result) -> Bars:
    placement, metric = result.placements[0], column.figure.metric
    values = {broker: figure.median for broker in result.brokers(placement)
              if (broker == OURS or is_peer(broker)) and (figure := result.figure(placement, broker, metric))}
    return Bars(column.head, values, {broker: metrics.show(column.shown_as, value) for broker, value in values.items()})


def _panel(panel: Panel, columns: Sequence[Bars], top: int) -> tuple[str, int]:
    """Returns the drawing and its height. One row for each broker, labelled once at the left."""
    brokers = list(dict.fromkeys(broker for column in columns for broker in column.values))
    width = (WIDTH - 2 * MARGIN - NAMES_WIDTH) // len(columns)
    heads, first = top + 60, top + 72
    parts = [_text(MARGIN, top + 15, panel.title, "text title"), _text(MARGIN, top + 34, panel.note, "soft small")]
    for row, broker in enumerate(brokers):
        parts.append(_text(MARGIN + NAMES_WIDTH - 10, first + row * ROW_HEIGHT + 12, title_of(broker), f"text end{' strong' if is_ours(broker) else ''}"))
    for number, column in enumerate(columns):
        left = MARGIN + NAMES_WIDTH + number * width
        most = max(column.values.values())
        parts.append(_text(left, heads, column.head, "text head"))
        for row, broker in enumerate(brokers):
            y = first + row * ROW_HEIGHT
            if broker not in column.values:
                parts.append(_text(left, y + 12, "not measured", "soft small"))
                continue
            length = max(1.5, (width - COLUMN_GAP - VALUE_WIDTH) * column.values[broker] / most)
            kind, weight = ("ours", " strong") if is_ours(broker) else ("other", "")
            parts.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}" rx="1.5"/>'
                         + _text(f"{left + length + 5:.1f}", y + 12, column.shown[broker], f"text{weight}"))
    return "\n".join(parts), 72 + len(brokers) * ROW_HEIGHT + 16


def _source(used: list[Result]) -> list[str]:
    """Returns the versions, the machine and the date."""
    versions = {broker: found[0] for result in used for broker in result.brokers(result.placements[0])
                if is_peer(broker) and (found := re.findall(r"\d+(?:\.\d+)+", result.data["versions"].get(broker, "")))}
    dates = sorted({result.date for result in used})
    machine = used[0].data["machine"]
    rounds = min(result.data["rounds"] for result in used)
    return [
        "nats-server stores QoS 1 and 2 messages in files. The others keep everything in memory here, and so does Tautwire.",
        "Versions: " + ", ".join(f"{title_of(broker)} {version}" for broker, version in versions.items()) + ".",
        f"{machine['cpu_model']}, {machine['cores']} cores{', virtual' if machine.get('virtualised') else ''}. Medians of {rounds} rounds, "
        f"measured {dates[-1] if len(dates) == 1 else f'{dates[0]} to {dates[-1]}'}. Each column has its own scale.",
    ]


def _description(drawn: Sequence[tuple[Panel, Sequence[Bars]]]) -> str:
    """Returns the alternative text for screen readers."""
    return " ".join(
        f"{panel.title}. " + " ".join(f"{column.head}: " + ", ".join(f"{title_of(broker)} {shown}" for broker, shown in column.shown.items()) + "." for column in columns)
        for panel, columns in drawn
    )


def _text(x: float | str, y: float, words: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'
