"""HTML that the sections of the page share."""

from __future__ import annotations

from html import escape

import metrics
from results import Result, title_of


# Columns with text instead of figures.
WORDS = ("figure", "placement", "by", "measured on", "what should hold")

# The placement of the processes. A wake-up across CPUs costs many times one on the same CPU, so figures are comparable only at the same placement.
PLACEMENTS = {
    "free": "on any CPU",
    "broker=0,generator=0": "broker and clients share one CPU",
    "broker=0,generator=1": "one CPU for the broker, one for the clients",
}


def table(head: tuple[str, ...], body: str) -> str:
    cells = "".join(f'<th{" class=words" if name in WORDS else ""}>{escape(name)}</th>' for name in head)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def cell(result: Result, placement: str, broker: str, metric: str, is_best: bool = False, more: str = "") -> str:
    if result.figure(placement, broker, metric) is None:
        return "<td>–</td>"
    return f'<td{" class=best" if is_best else ""}>{number(result, placement, broker, metric)}{escape(more)}</td>'


def number(result: Result, placement: str, broker: str, metric: str) -> str:
    """Returns a figure as a link to its file."""
    figure = result.figure(placement, broker, metric)
    assert figure is not None
    rounds = "1 round" if figure.rounds == 1 else f"{figure.rounds} rounds"
    span = f"{metrics.show(metric, figure.least)} to {metrics.show(metric, figure.most)} in {rounds}; {placement}, {broker}, {metric}"
    return f'<a href="{href(result)}" title="{escape(span)}">{escape(metrics.show(metric, figure.median))}</a>'


def link(result: Result) -> str:
    return f'<a href="{href(result)}">{escape(result.name)}</a>'


def href(result: Result) -> str:
    return f"../results/{result.path.parent.name}/{result.path.name}"


def placement_words(placement: str) -> str:
    return PLACEMENTS.get(placement, placement)


def by_placement(result: Result, content) -> str:
    """Shows the first placement expanded, the others collapsed."""
    parts = []
    for at, placement in enumerate(result.placements):
        words = escape(placement_words(placement))
        if at == 0:
            parts.append(f"<p><b>{words}</b></p>{content(placement)}")
        else:
            parts.append(f"<details><summary>{words}</summary>{content(placement)}</details>")
    return "".join(parts)


def titles(brokers: list[str]) -> tuple[str, ...]:
    return ("", *(title_of(broker) for broker in brokers))
