"""The same in Markdown: bench/report/summary.md, and the section of the README between its markers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import compare
import libraries
import metrics
from results import FLOORS, ROOT, Result, is_ours, title_of
from tables import placement_words

BEGIN = "<!-- performance: written by `make bench-report` from bench/results -->"
END = "<!-- performance: end -->"
README_BEHIND_MAX = 8


def summary(results: list[Result], rows: list[libraries.Row]) -> str:
    """All headlines, all that others do better, all that was missed, and a line for each result."""
    link = _linker(ROOT / "bench" / "report")
    lines = ["# Benchmarks: summary", "",
             "Written by `make bench-report`; [the whole report](index.html), which works offline, has the figures and the curves. How each",
             "number is measured, and what it does not say: [bench](../README.md). Each links to its file.", "",
             "## Where others are better", "", *_behind(results, rows, link, None), "",
             "## What was missed", "", *_missed(results, link), "",
             "## At a glance", "", *_headlines(results, link), "",
             "## Codecs and clients", "", *_libraries(rows, link), "",
             "## Results", "", "| result | measured | commit | machine |", "|---|---|---|---|"]
    lines += [f"| [{result.name}]({link(result.path)}): {result.title} | {result.date} | {result.data['commit']} | {result.machine} |" for result in results]
    return "\n".join(lines) + "\n"


def section(results: list[Result], rows: list[libraries.Row]) -> str:
    """What stands between the markers of the README."""
    link = _linker(ROOT)
    machines = sorted({result.machine for result in results})
    dates = sorted({result.date for result in results})
    lines = [BEGIN, "", f"{'; '.join(machines)}. Measured {dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}. First where others are better:", "",
             *_behind(results, rows, link, README_BEHIND_MAX), "", *_headlines(results, link), "", END]
    return "\n".join(lines)


def into_readme(text: str, made: str) -> str | None:
    """The README with the section in it; `None` where it has no markers."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    return pattern.sub(lambda _: made, text) if pattern.search(text) else None


def _behind(results: list[Result], rows: list[libraries.Row], link: Callable[[Path], str], most: int | None) -> list[str]:
    cases = [case for case in compare.behind(results) if case.is_clear]
    slower = sorted((row for row in rows if row.factor < 1 / compare.FACTOR_MIN), key=lambda row: row.factor)
    if not cases and not slower:
        return ["No one is better in any figure beyond the spread of the rounds."]
    lines = ["| | Tautwire | best | by |", "|---|--:|--:|---|"]
    for case in cases[:most]:
        ours, theirs = (metrics.show(case.metric, figure.median) for figure in (case.ours, case.theirs))
        url = link(case.result.path)
        lines.append(f"| {case.result.title}: {case.what} ({placement_words(case.placement)}) | [{ours}]({url}) | [**{theirs}**]({url}) | {case.by} |")
    for row in slower[: None if most is None else max(0, most - len(cases))]:
        url = link(row.path)
        ours, theirs = (metrics.show(row.metric, value) for value in (row.ours, row.theirs))
        lines.append(f"| {row.language}: {row.what} | [{ours}]({url}) | [**{theirs}**]({url}) | {row.peer} |")
    hidden = len(cases) + len(slower) - (len(lines) - 2)
    return [*lines, "", f"And {hidden} more: [all of them]({link(ROOT / 'bench/report/summary.md')})."] if hidden else lines


def _missed(results: list[Result], link: Callable[[Path], str]) -> list[str]:
    lines = [f"| [{result.name}]({link(result.path)}) | {check['what']} | {compare.measured(check)} | {check['verdict'].replace('_', ' ')} |"
             for result, check in compare.missed(results)]
    return ["| | what was to hold | measured | |", "|---|---|--:|---|", *lines] if lines else ["Every threshold of every scenario was met."]


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
    return lines if rows else ["No result of codecs and clients is there: `make bench-codecs` makes them."]


def _linker(folder: Path) -> Callable[[Path], str]:
    return lambda path: os.path.relpath(path, folder).replace(os.sep, "/")
