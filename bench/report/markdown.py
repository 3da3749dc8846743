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
from situations import situation
from tables import placement_words

BEGIN = "<!-- performance: written by `make bench-report` from bench/results -->"
END = "<!-- performance: end -->"
README_BEHIND_MAX = 6
BEHIND_HEAD = ["| situation | figure | Tautwire | best | by |", "|---|---|--:|--:|---|"]
README_BEHIND_HEAD = ["| what | Tautwire | best | by |", "|---|--:|--:|---|"]
# What a user of the broker cares about most, the most important first: scenario, metric, and the two in plain words.
README_ORDER = [
    ("c7-kills", "broker_killed_own_p50_us", "Cluster: median time without service for the clients of a broker that is killed"),
    ("c2-qos1-quorum", "p99_us@64", "Cluster: latency of QoS 1 with 64 messages in transit, on the disks of a quorum before it is acknowledged (99th percentile)"),
    ("d1-durable-latency", "p50_us", "Single broker: median latency of QoS 1, one message at a time, on disk before it is acknowledged"),
    ("b3-sustained", "last_tenth_p99_us", "Latency after half a minute of 10,000 messages per second from 1,000 publishers to 1,000 subscribers (99th percentile)"),
    ("b9-connections", "probe_p99_us@1000", "Latency of two busy clients beside 1,000 idle connections (99th percentile)"),
    ("b10-slow-consumer", "reached_slow_consumer_percent", "Share of the messages that reach a subscriber that stops reading"),
]
NOT_BEHIND = "No other is better in any figure by more than the spread of the rounds."


def summary(results: list[Result], rows: list[libraries.Row]) -> str:
    """Where others are better, what was missed, the figures at a glance, and a line for each result."""
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
    """The README with the section in it; `None` where it has no markers."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    return pattern.sub(lambda _: made, text) if pattern.search(text) else None


def _behind(results: list[Result], rows: list[libraries.Row], link: Callable[[Path], str]) -> list[str]:
    """All of them."""
    cases, slower = _clearly_behind(results, rows)
    lines = [_line(f"{situation(case.result)}; {placement_words(case.placement)}", case, link) for case in cases]
    lines += [_library_line(row, link) for row in slower]
    return [*BEHIND_HEAD, *lines] if lines else [NOT_BEHIND]


def _behind_short(results: list[Result], rows: list[libraries.Row], link: Callable[[Path], str]) -> list[str]:
    """Those of [`README_ORDER`], then the clearest: each figure of a situation once, whatever the placement and the step of the curve."""
    cases, slower = _clearly_behind(results, rows)
    if not cases and not slower:
        return [NOT_BEHIND]
    clearest: dict[tuple[str, str], compare.Behind] = {}
    for case in cases:
        clearest.setdefault((case.result.name, case.metric), case)
    named = [(what, case) for name, metric, what in README_ORDER if (case := clearest.get((name, metric)))]
    seen = {(case.result.name, metrics.base(case.metric)) for _, case in named}
    for case in cases:
        if (key := (case.result.name, metrics.base(case.metric))) not in seen:
            seen.add(key)
            named.append((f"{situation(case.result)}: {case.what}", case))
    lines = [_figures(what, case, link) for what, case in named] + [_library_figures(row, link) for row in slower]
    shown = lines[:README_BEHIND_MAX]
    hidden = len(cases) + len(slower) - len(shown)
    more = ["", f"The report lists {hidden} more: [all of them]({link(ROOT / 'bench/report/summary.md')})."] if hidden else []
    return [*README_BEHIND_HEAD, *shown, *more]


def _clearly_behind(results: list[Result], rows: list[libraries.Row]) -> tuple[list[compare.Behind], list[libraries.Row]]:
    slower = [row for row in rows if row.factor < 1 / compare.FACTOR_MIN]
    return [case for case in compare.behind(results) if case.is_clear], sorted(slower, key=lambda row: row.factor)


def _line(where: str, case: compare.Behind, link: Callable[[Path], str]) -> str:
    return _figures(f"{where} | {case.what}", case, link)


def _figures(what: str, case: compare.Behind, link: Callable[[Path], str]) -> str:
    ours, theirs = (metrics.show(case.metric, figure.median) for figure in (case.ours, case.theirs))
    url = link(case.result.path)
    return f"| {what} | [{ours}]({url}) | [**{theirs}**]({url}) | {case.by} |"


def _library_line(row: libraries.Row, link: Callable[[Path], str]) -> str:
    return _library_row(f"{row.language}: {row.part} | {libraries.label(row.metric)}", row, link)


def _library_figures(row: libraries.Row, link: Callable[[Path], str]) -> str:
    return _library_row(f"{row.language}: {row.part}, {libraries.label(row.metric)}", row, link)


def _library_row(what: str, row: libraries.Row, link: Callable[[Path], str]) -> str:
    ours, theirs = (metrics.show(row.metric, value) for value in (row.ours, row.theirs))
    url = link(row.path)
    return f"| {what} | [{ours}]({url}) | [**{theirs}**]({url}) | {row.peer} |"


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
