"""Charts as SVG. Series differ by colour, line, marker and label, so that none of these alone is essential.

Drawn for the width of a phone; wider screens enlarge them. Colours are variables of style.css, for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from results import place_of, title_of

WIDTH = 380
LEFT, RIGHT, TOP, BOTTOM = 58, 26, 10, 38
PLOT_HEIGHT = 190
LABEL_HEIGHT = 16
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4")
PERCENTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    is_log: bool = True

    def at(self, value: float) -> float:
        """From 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: a name, a value and its text. They start at zero, so that lengths are comparable."""
    most = max(value for _, value, _ in rows) or 1
    row_height, name_width, value_width = 26, 104, 76
    room = WIDTH - name_width - value_width
    height = row_height * len(rows) + 6
    parts = []
    for number, (broker, value, shown) in enumerate(rows):
        y = 4 + number * row_height
        length = max(1.5, room * value / most)
        parts.append(
            f'<text x="{name_width - 6}" y="{y + 14}" class="name">{escape(title_of(broker))}</text>'
            f'<rect x="{name_width}" y="{y + 2}" width="{length:.1f}" height="17" class="fill {_colour(broker)}"/>'
            f'<text x="{name_width + length + 5:.1f}" y="{y + 14}" class="value">{escape(shown)}</text>'
        )
    return _svg(title, height, "".join(parts))


def lines(title: str, series: Sequence[Series], x: Axis, y: Axis, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]) -> str:
    """Lines with markers, and a legend."""
    width, height = WIDTH - LEFT - RIGHT, PLOT_HEIGHT

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return LEFT + width * x.at(point[0]), TOP + height * (1 - y.at(point[1]))

    parts = []
    for value, shown in y_ticks:
        at = place((x.low, value))[1]
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
                     f'<text x="{LEFT - 6}" y="{at + 4:.1f}" class="name">{escape(shown)}</text>')
    for value, shown in x_ticks:
        at = place((value, y.low))[0]
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{TOP + height}" class="grid"/>'
                     f'<text x="{at:.1f}" y="{TOP + height + 14}" class="tick">{escape(shown)}</text>')
    parts.append(f'<text x="{LEFT + width / 2}" y="{TOP + height + 29}" class="tick">{escape(x.label)}</text>')
    for one in series:
        places = [place(point) for point in one.points]
        path = " ".join(f"{'M' if number == 0 else 'L'}{px:.1f} {py:.1f}" for number, (px, py) in enumerate(places))
        parts.append(f'<path d="{path}" class="line {_colour(one.name)}" stroke-dasharray="{_dash(one.name)}"/>')
        step = max(1, len(places) // 5)
        parts += [_marker(one.name, *spot) for spot in places[:: step]]
    base = TOP + height + BOTTOM + 8
    for number, one in enumerate(series):
        at, down = LEFT + (number % 2) * 160 - 40, base + (number // 2) * LABEL_HEIGHT
        parts.append(f'<path d="M{at} {down - 4}h30" class="line {_colour(one.name)}" stroke-dasharray="{_dash(one.name)}"/>'
                     f'{_marker(one.name, at + 15, down - 4)}<text x="{at + 36}" y="{down}" class="value">{escape(title_of(one.name))}</text>')
    return _svg(title, base + (len(series) - 1) // 2 * LABEL_HEIGHT + 6, "".join(parts))


def latencies(title: str, histograms: dict[str, dict]) -> str:
    """Percentile curves. The x axis is logarithmic by rarity: 90 % is one exchange in ten, 99 % one in a hundred."""
    series = [Series(broker, _percentile_curve(histogram)) for broker, histogram in histograms.items() if histogram["count"]]
    values = [value for one in series for _, value in one.points]
    y = Axis("", *_round_log(min(values), max(values)))
    x_ticks = [(1 / (1 - part), f"{part * 100:g} %") for part in PERCENTILES]
    x = Axis("percentile", 1 / (1 - PERCENTILES[0]), 1 / (1 - PERCENTILES[-1]))
    return lines(title, series, x, y, x_ticks, [(tick, _microseconds(tick)) for tick in _log_ticks(y)])


def growth(title: str, label: str, series: Sequence[Series], shown) -> str:
    """Plots a figure over the parameter of a curve. Both scales are logarithmic: proportional growth is a diagonal."""
    xs = sorted({point[0] for one in series for point in one.points})
    ys = [point[1] for one in series for point in one.points if point[1] > 0]
    y = Axis("", *_round_log(min(ys), max(ys)))
    x = Axis(label, xs[0], xs[-1] if xs[-1] > xs[0] else xs[0] * 10)
    kept = [Series(one.name, [point for point in one.points if point[1] > 0]) for one in series]
    ticks = xs if len(xs) <= 6 else xs[:: math.ceil(len(xs) / 6)]
    return lines(title, [one for one in kept if one.points], x, y, [(value, _count(value)) for value in ticks],
                 [(tick, shown(tick)) for tick in _log_ticks(y)])


def _percentile_curve(histogram: dict) -> list[tuple[float, float]]:
    """Returns pairs of 1 / (1 - percentile) and microseconds, as far as there are measurements."""
    points, seen = [], 0
    total = histogram["count"]
    wanted = [PERCENTILES[0], *(1 - 10 ** -(n / 6) for n in range(2, 25))]
    for value, count in zip(histogram["values_ns"], histogram["counts"], strict=True):
        seen += count
        while wanted and seen >= wanted[0] * total and seen:
            part = wanted.pop(0)
            if total * (1 - part) >= 1:
                points.append((1 / (1 - part), value / 1000))
    return points


def _round_log(low: float, high: float) -> tuple[float, float]:
    """Returns the ends of a scale at 1, 2 or 5 times a power of ten."""
    def ends(value: float, up: bool) -> float:
        power = 10 ** math.floor(math.log10(value))
        choices = [power * step for step in (1, 2, 5, 10)]
        return next((c for c in choices if c >= value), choices[-1]) if up else max(c for c in choices if c <= value * 1.000001)

    bottom, top = ends(low, False), ends(high, True)
    return bottom, top if top > bottom else bottom * 2


def _log_ticks(axis: Axis) -> list[float]:
    power = math.floor(math.log10(axis.low))
    ticks = [step * 10**n for n in range(power, math.ceil(math.log10(axis.high)) + 1) for step in (1, 2, 5)]
    inside = [tick for tick in ticks if axis.low * 0.999 <= tick <= axis.high * 1.001]
    return inside if len(inside) <= 8 else [tick for tick in inside if math.log10(tick) % 1 < 0.01 or math.log10(tick) % 1 > 0.99]


def _microseconds(value: float) -> str:
    return f"{value / 1000:g} ms" if value >= 1000 else f"{value:g} µs"


def _count(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:g}"


def _colour(broker: str) -> str:
    return f"c{place_of(broker, 9)}"


def _dash(broker: str) -> str:
    return DASHES[place_of(broker, 5) % len(DASHES)]


def _marker(broker: str, x: float, y: float) -> str:
    shape = place_of(broker, 5) % 4
    paths = (
        f"M{x - 3.5:.1f} {y:.1f}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
        f"M{x - 3:.1f} {y - 3:.1f}h6v6h-6z",
        f"M{x:.1f} {y - 4:.1f}l4 7h-8z",
        f"M{x:.1f} {y - 4:.1f}l4 4-4 4-4-4z",
    )
    return f'<path d="{paths[shape]}" class="fill {_colour(broker)}"/>'


def _svg(title: str, height: float, inside: str) -> str:
    return (f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
            f'aria-label="{escape(title)}">{inside}</svg></figure>')
