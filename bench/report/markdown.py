"""The report in Markdown: bench/report/summary.md, and the section of the README between its markers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import compare
import libraries
import metrics
from results import FLOORS, ROOT, Result, is_ours, title_of
from situations import situation
from tables import placement_words

BEGIN = "<!-- performance: written by `make bench-report` from bench/results -->"
END = "<!-- performance: end -->"
README_BEHIND_MAX = 8
BEHIND_HEAD = ["| situation | figure | Tautwire | best | by |", "|---|---|--:|--:|---|"]
NOT_BEHIND = "No other is better in any figure by more than the spread of the rounds."


def summary(results: list[Result], rows: list[libraries.Row]) -> str:
    """Figures in which others are better, missed thresholds, an overview, and a line for each result."""
    link = _linker(ROOT / "bench" / "report")
    lines = ["# Benchmarks: summary", "",
             "`make bench-report` writes this page. [The whole report](index.html) works offline and has the charts. [bench](../README.md)",
             "says how each number is measured and what it does not say. Each number links to its file.", "",
             "## Where others are better", "", *_behind(results, rows, link), "",
             "## What was missed", "", *_missed(results, link), "",
             "## At a glance", "", *_headlines(results, link), "",
             "## Codecs and clients", "", *_libraries(rows, link), "",
             "## Results", "", "| result | measured | commit | machine |", "|---|---|---|---|"]
    lines += [f"| [{result.name}]({link(result.path)}): {result.title} | {result.date} | {result.data['commit']} | {result.machine} |" for result in results]
    return "\n".join(lines) + "\n"


def section(results: list[Result], rows: list[libraries.Row]) -> str:
    """The text between the markers of the README."""
    link = _linker(ROOT)
    machines = sorted({result.machine for result in results})
    dates = sorted({result.date for result in results})
    measured = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    lines = [BEGIN, "", *_behind_short(results, rows, link), "", f"Measured {measured} on {'; '.join(machines)}.", "", END]
    return "\n".join(lines)


def into_readme(text: str, made: str) -> str | None:
    """Returns the README with the new section; `None` if it has no markers."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    return pattern.sub(lambda _: made, text) if pattern.search(text) else None


def _behind(results: list[Result], rows: list[libraries.Row], link: Callable[[Path], str]) -> list[str]:
    """All of them."""
    cases, slower = _clearly_behind(results, rows)
    lines = [_line(f"{situation(case.result)}; {placement_words(case.placement)}", case, link) for case in cases]
    lines += [_library_line(row, link) for row in slower]
    return [*BEHIND_HEAD, *lines] if lines else [NOT_BEHIND]


def _behind_short(results: list[Result], rows: list[libraries.Row], link: Callable[[Path], str]) -> list[str]:
    """Returns the largest differences: each figure of a situation once, regardless of placement and step."""
    cases, slower = _clearly_behind(results, rows)
    if not cases and not slower:
        return [NOT_BEHIND]
    clearest: dict[tuple[str, str], compare.Behind] = {}
    for case in cases:
        clearest.setdefault((case.result.name, metrics.base(case.metric)), case)
    lines = [_line(situation(case.result), case, link) for case in clearest.values()] + [_library_line(row, link) for row in slower]
    shown = lines[:README_BEHIND_MAX]
    hidden = len(cases) + len(slower) - len(shown)
    more = ["", f"The report lists {hidden} more: [all of them]({link(ROOT / 'bench/report/summary.md')})."] if hidden else []
    return [*BEHIND_HEAD, *shown, *more]


def _clearly_behind(results: list[Result], rows: list[libraries.Row]) -> tuple[list[compare.Behind], list[libraries.Row]]:
    slower = [row for row in rows if row.factor < 1 / compare.FACTOR_MIN]
    return [case for case in compare.behind(results) if case.is_clear], sorted(slower, key=lambda row: row.factor)


def _line(where: str, case: compare.Behind, link: Callable[[Path], str]) -> str:
    ours, theirs = (metrics.show(case.metric, figure.median) for figure in (case.ours, case.theirs))
    url = link(case.result.path)
    return f"| {where} | {case.what} | [{ours}]({url}) | [**{theirs}**]({url}) | {case.by} |"


def _library_line(row: libraries.Row, link: Callable[[Path], str]) -> str:
    ours, theirs = (metrics.show(row.metric, value) for value in (row.ours, row.theirs))
    url = link(row.path)
    return f"| {row.language}: {row.part} | {libraries.label(row.metric)} | [{ours}]({url}) | [**{theirs}**]({url}) | {row.peer} |"


def _missed(results: list[Result], link: Callable[[Path], str]) -> list[str]:
    lines = [f"| [{result.name}]({link(result.path)}) | {check['what']} | {compare.measured(check)} | {check['verdict'].replace('_', ' ')} |"
             for result, check in compare.missed(results)]
    return ["| | what should hold | measured | |", "|---|---|--:|---|", *lines] if lines else ["Every threshold of every scenario was met."]


def _headlines(results: list[Result], link: Callable[[Path], str]) -> list[str]:
    found = [(headline, result) for headline in compare.HEADLINES if (result := headline.find(results))]
    brokers = list(dict.fromkeys(broker for _, result in found for broker in result.brokers(result.placements[0]) if broker != "tautwire-2t"))
    brokers.sort(key=lambda broker: (broker in FLOORS, not is_ours(broker)))
    lines = ["| | " + " | ".join(title_of(broker) for broker in brokers) + " |", "|---|" + "--:|" * len(brokers)]
    for headline, result in found:
        placement = result.placements[0]
        best = compare.best_broker(result, placement, headline.metric)
        cells = []
        for broker in brokers:
            figure = result.figure(placement, broker, headline.metric)
            shown = metrics.show(headline.metric, figure.median) if figure else ""
            strong = f"**{shown}**" if broker == best else shown
            cells.append(f"[{strong}]({link(result.path)})" if figure else "–")
        lines.append(f"| {headline.label} | " + " | ".join(cells) + " |")
    return lines


def _libraries(rows: list[libraries.Row], link: Callable[[Path], str]) -> list[str]:
    lines = ["| | Tautwire | best other | by | ratio |", "|---|--:|--:|---|--:|"]
    for row in rows:
        url = link(row.path)
        ours, theirs = (metrics.show(row.metric, value) for value in (row.ours, row.theirs))
        lines.append(f"| {row.language}: {row.what} | [{ours}]({url}) | [{theirs}]({url}) | {row.peer} | {row.factor_shown} |")
    return lines if rows else ["There are no results of codecs and clients; `make bench-codecs` makes them."]


def _linker(folder: Path) -> Callable[[Path], str]:
    return lambda path: os.path.relpath(path, folder).replace(os.sep, "/")
