"""bench/report/index.html: one file without external resources."""

from __future__ import annotations

from html import escape
from pathlib import Path

import compare
import figures
import libraries
import matrix
import metrics
from results import FLOORS, Result, is_ours, title_of
from situations import situation
from tables import by_placement, cell, link, number, placement_words, table, titles

HERE = Path(__file__).resolve().parent
# Further figures are in a collapsed table.
METRICS_AT_FIRST = 6


def render(results: list[Result], rows: list[libraries.Row]) -> str:
    style = (HERE / "style.css").read_text()
    sections = [
        _intro(results),
        _behind(results, rows),
        _missed(results),
        _headlines(results),
        '<h2 id="scenarios">Scenarios</h2>',
        *(_scenario(result) for result in results if not result.is_library),
        _libraries(results, rows),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Tautwire: benchmarks</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n" + "\n".join(section for section in sections if section) + "\n</body>\n</html>\n"
    )


def _intro(results: list[Result]) -> str:
    machines = sorted({result.machine for result in results})
    dates = sorted({result.date for result in results})
    links = " ".join(f'<a href="#{_anchor(result)}">{escape(result.name)}</a>' for result in results if not result.is_library)
    return (
        "<header><h1>Tautwire: benchmarks</h1>"
        "<p>Every number is the median of the rounds of one run in which the brokers took turns, and links to the file it "
        "comes from. Point at it to see the range of the rounds. The best broker is marked. The bare relay and the bare sockets "
        'do not speak MQTT: they show the least that anything can cost. <a href="../README.md">How each figure is measured, and what the figures do not say</a>.</p>'
        f'<p class="source">{escape("; ".join(machines))}. Measured {escape(dates[0]) if dates else ""}'
        f'{" to " + escape(dates[-1]) if len(dates) > 1 else ""}. Compare figures as ratios within one run; another machine gives other figures.</p></header>'
        '<nav><p><a href="#behind">Where others are better</a> <a href="#missed">What was missed</a> <a href="#glance">At a glance</a> '
        f'<a href="#libraries">Codecs and clients</a></p><p>{links}</p></nav>'
    )


def _behind(results: list[Result], rows: list[libraries.Row]) -> str:
    cases = compare.behind(results)
    clear, unclear = [case for case in cases if case.is_clear], [case for case in cases if not case.is_clear]
    slower = sorted((row for row in rows if row.factor < 1 / compare.FACTOR_MIN), key=lambda row: row.factor)
    parts = ['<h2 id="behind">Where others are better</h2>']
    parts.append(_behind_table(clear) if clear else "<p>No other broker is better in any figure by more than the spread of the rounds.</p>")
    if slower:
        body = "".join(_library_row(row) for row in slower)
        parts.append(f"<h3>Codecs and clients</h3>{table(LIBRARY_HEAD, body)}")
    if unclear:
        parts.append(f"<details><summary>{len(unclear)} more in which the rounds overlap</summary>{_behind_table(unclear)}</details>")
    return "".join(parts)


def _behind_table(cases: list[compare.Behind]) -> str:
    body = "".join(
        f'<tr><td>{escape(situation(case.result))}</td><td class="words">{escape(case.what)}</td>'
        f'<td class="words">{escape(placement_words(case.placement))}</td>'
        f"<td>{number(case.result, case.placement, *case.ours_at)}</td>"
        f'<td class="best">{number(case.result, case.placement, *case.theirs_at)}</td>'
        f'<td class="words">{escape(case.by)}</td><td>{case.factor:.2f}×</td></tr>'
        for case in cases
    )
    return table(("scenario", "figure", "placement", "Tautwire", "best", "by", "how much"), body)


def _missed(results: list[Result]) -> str:
    body = "".join(
        f'<tr><td>{link(result)}</td><td class="words">{escape(check["what"])}</td>'
        f"<td>{compare.measured(check)}</td><td class=\"{check['verdict']}\">{check['verdict'].replace('_', ' ')}</td></tr>"
        for result, check in compare.missed(results)
    )
    missed = table(("scenario", "what should hold", "measured", "verdict"), body) if body else "<p>Every threshold of every scenario was met.</p>"
    return f'<h2 id="missed">What was missed</h2>{missed}'


def _headlines(results: list[Result]) -> str:
    found = [(headline, result) for headline in compare.HEADLINES if (result := headline.find(results))]
    brokers = list(dict.fromkeys(broker for _, result in found for broker in result.brokers(result.placements[0]) if broker != "tautwire-2t"))
    brokers.sort(key=lambda broker: (broker in FLOORS, not is_ours(broker)))
    body = ""
    for headline, result in found:
        placement = result.placements[0]
        best = compare.best_broker(result, placement, headline.metric)
        body += f"<tr><td>{escape(headline.label)}</td>"
        body += "".join(cell(result, placement, broker, headline.metric, broker == best) for broker in brokers) + "</tr>"
    return f'<h2 id="glance">At a glance</h2>{table(titles(brokers), body)}' if body else ""


def _scenario(result: Result) -> str:
    data = result.data
    verdict = data.get("verdict") or ("fail" if any(check["verdict"] == "fail" for check in data["checks"]) else "pass")
    parts = [
        f'<h3 id="{_anchor(result)}">{escape(result.name)}: {escape(result.title)}</h3>',
        f'<p class="source">{link(result)}, definition {data["definition_version"]}, commit {escape(data["commit"])}, {escape(result.date)}, '
        f'{data["rounds"]} round{"" if data["rounds"] == 1 else "s"}, thresholds: <span class="{verdict}">{verdict.replace("_", " ")}</span>. {escape(result.machine)}.</p>',
    ]
    parts += [f'<p>{escape(published["by"])} publishes for this: {escape(published["figures"])} ({escape(published["machine"])}). '
              f'What that measures: {escape(published["what_it_measures"])}</p>' for published in data.get("published", [])]
    if data["left_out"]:
        parts.append(f'<p class="source">Left out: {escape("; ".join(f"{title_of(who)}: {why}" for who, why in data["left_out"].items()))}</p>')
    if result.kind == "rtt-matrix":
        return "".join(parts) + matrix.render(result)
    return "".join(parts) + by_placement(result, lambda placement: _figures(result, placement) + _tables(result, placement))


def _figures(result: Result, placement: str) -> str:
    """The most important figure as bars, latencies as percentile curves, and each figure of a curve over its steps."""
    drawn = []
    names = metrics.ordered(result.kind, result.metrics(placement))
    single = [name for name in names if "@" not in name and metrics.better(name) != metrics.NEITHER]
    for name in single[:2]:
        values = [(broker, figure.median, metrics.show(name, figure.median)) for broker in result.brokers(placement)
                  if (figure := result.figure(placement, broker, name))]
        if len(values) > 1:
            direction = "lower is better" if metrics.better(name) == metrics.LOWER else "higher is better"
            drawn.append(figures.bars(f"{metrics.label(name)} ({direction})", values))
    for name, histograms in result.histograms(placement).items():
        if "@" not in name:
            drawn.append(figures.latencies(f"{name.replace('_', ' ')}, percentiles", histograms))
    if curve := result.data.get("curve"):
        for base in dict.fromkeys(metrics.base(name) for name in names if "@" in name and metrics.better(name) != metrics.NEITHER):
            series = [figures.Series(broker, points) for broker in result.brokers(placement) if len(points := _points(result, placement, broker, base)) > 1]
            # The scale is logarithmic, so zero cannot be plotted.
            if any(value > 0 for one in series for _, value in one.points):
                drawn.append(figures.growth(metrics.label(base), curve["parameter"].replace("_", " "), series,
                                            lambda value, base=base: metrics.show(base, value)))
    return f'<div class="figures">{"".join(drawn)}</div>' if drawn else ""


def _points(result: Result, placement: str, broker: str, base: str) -> list[tuple[float, float]]:
    points = []
    for name in result.metrics(placement):
        if metrics.base(name) != base or "@" not in name:
            continue
        at, figure = metrics.step(name), result.figure(placement, broker, name)
        if at is None:
            # The maximum of the machine: the number is a separate figure.
            most = result.figure(placement, broker, f"{result.data['curve']['parameter']}@most")
            at = most.median if most else None
        if at and figure:
            points.append((float(at), figure.median))
    return sorted(points)


def _tables(result: Result, placement: str) -> str:
    names = metrics.ordered(result.kind, result.metrics(placement))
    brokers = result.brokers(placement)

    def rows(of: list[str]) -> str:
        body = ""
        for name in of:
            best = compare.best_broker(result, placement, name)
            body += f"<tr><td>{escape(metrics.label(name, result.parameter))}</td>"
            body += "".join(cell(result, placement, broker, name, broker == best) for broker in brokers) + "</tr>"
        return table(titles(brokers), body)

    first, rest = names[:METRICS_AT_FIRST], names[METRICS_AT_FIRST:]
    return rows(first) + (f"<details><summary>{len(rest)} more figures</summary>{rows(rest)}</details>" if rest else "")


LIBRARY_HEAD = ("what", "Tautwire", "best other", "by", "ratio", "measured on")


def _libraries(results: list[Result], rows: list[libraries.Row]) -> str:
    if not rows:
        return ""
    parts = ['<h2 id="libraries">Codecs and clients</h2><p>Each figure beside the best of the others in the same run, such as CPU time for one '
             "operation, or messages a second of CPU time. A ratio above 1 means that ours is better by that factor.</p>"]
    left_out = [f"{result.name}: {who}: {why}" for result in results if result.is_library for who, why in result.data["left_out"].items()]
    if left_out:
        parts.append(f'<p class="source">Left out: {escape("; ".join(left_out))}</p>')
    for language in dict.fromkeys(row.language for row in rows):
        body = "".join(_library_row(row) for row in rows if row.language == language)
        parts.append(f"<h3>{escape(language)}</h3>{table(LIBRARY_HEAD, body)}")
    return "".join(parts)


def _library_row(row: libraries.Row) -> str:
    href = f"../results/{row.path.parent.name}/{row.path.name}"
    ours, theirs = (f'<a href="{href}">{escape(metrics.show(row.metric, value))}</a>' for value in (row.ours, row.theirs))
    mark, other = ("best", "") if row.factor >= 1 else ("", "best")
    return (f'<tr><td>{escape(row.language)}: {escape(row.what)}</td><td class="{mark}">{ours}</td><td class="{other}">{theirs}</td>'
            f'<td class="words">{escape(row.peer)}</td><td>{row.factor_shown}</td>'
            f'<td class="words source">{escape(row.result.date)}, {escape(row.result.machine)}</td></tr>')


def _anchor(result: Result) -> str:
    return f"{result.path.parent.name}-{result.name}"
