"""Compares codecs and clients with their peers: runs the program of each and writes results in the common format. See README.md."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
import time
from pathlib import Path

import native
import thresholds
from forms import OURS, Measured

# In bench/rtt, which `native` also uses.
import machine
import summary

RESULTS = native.ROOT / "bench" / "results"


def main() -> int:
    options = _options()
    _alone = machine.wait_for_other_runs()
    has_failed = False
    left_out: dict[str, str] = {}
    for name in options.name:
        benchmark = native.BENCHMARKS[name]
        print(f"\n== {name}", file=sys.stderr, flush=True)
        load_average, started = os.getloadavg()[0], time.monotonic()
        try:
            measured = benchmark.run(options.quick)
        except native.Unavailable as error:
            left_out[name] = str(error)
            print(f"left out: {name}: {error}", file=sys.stderr, flush=True)
            continue
        result = result_of(name, measured, options.quick, load_average, time.monotonic() - started)
        path = _write(result, options.out)
        _print(result)
        print(f"written to {path}", flush=True)
        # A quick run is too short for the thresholds, but everything must complete.
        lost = any(not sample["exact"] for sample in result["samples"] if sample["broker"].startswith(OURS))
        has_failed = has_failed or lost or (result["verdict"] == "fail" and not options.quick)
    for name, why in left_out.items():
        print(f"left out: {name}: {why}")
    return 1 if has_failed else 2 if left_out else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Codecs and clients beside their peers.")
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"all of {', '.join(native.BENCHMARKS)} without one")
    parser.add_argument("--quick", action="store_true", help="few and short rounds: whether it works")
    parser.add_argument("--out", type=Path, help="where results go; without it, bench/results/HARDWARE or bench/results/quick")
    options = parser.parse_args()
    if unknown := [name for name in options.name if name not in native.BENCHMARKS]:
        parser.error(f"no benchmark is named {', '.join(unknown)}: {', '.join(native.BENCHMARKS)}")
    options.name = options.name or list(native.BENCHMARKS)
    return options


def result_of(name: str, measured: Measured, quick: bool, load_average: float, took_s: float) -> dict:
    """Returns a result with the schema bench/schema/result.json; a library is in the field of the broker."""
    benchmark = native.BENCHMARKS[name]
    samples = _samples(measured, benchmark.placement, load_average)
    summarised = summary.summarise(samples)
    checks = [thresholds.check(threshold, summarised.get(benchmark.placement, {})) for threshold in thresholds.load(name)]
    is_exact = all(sample["exact"] for sample in samples if sample["broker"].startswith(OURS))
    checks.append({"what": "tautwire: every run got to its end, with what it was to give", "verdict": "pass" if is_exact else "fail"})
    return {
        "name": name,
        "title": benchmark.title,
        "definition_version": 1,
        "commit": machine.revision(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "quick": quick,
        "took_s": round(took_s, 1),
        "nice": os.nice(0),
        "rounds": len(measured.rounds),
        "machine": machine.describe(),
        "versions": measured.versions,
        "left_out": measured.left_out,
        "parameters": {"kind": "library", "language": benchmark.language, "part": benchmark.part, **measured.parameters},
        "summary": summarised,
        "checks": checks,
        "verdict": summary.verdict(checks),
        "samples": samples,
    }


def _samples(measured: Measured, placement: str, load_average: float) -> list[dict]:
    samples = []
    for at, libraries in enumerate(measured.rounds):
        for library, metrics in libraries.items():
            errors = measured.errors.get((at, library), [])
            sample = {"broker": library, "placement": placement, "round": at, "load_average": round(load_average, 2), "exact": not errors}
            samples.append(sample | {"metrics": metrics} | ({"error": "; ".join(errors)} if errors else {}))
    return samples


def _write(result: dict, out: Path | None) -> Path:
    folder = out or RESULTS / ("quick" if result["quick"] else machine.slug(result["machine"]))
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    # Write a figure with its range, or a row of numbers, on one line.
    text = re.sub(r'\{\s+("median"[^{}]*?)\s*\}', lambda row: "{ " + re.sub(r"\s+", " ", row[1]) + " }", text) + "\n"
    latest = folder / f"latest-{result['name']}.json"
    latest.write_text(text)
    (folder / f"{result['commit']}_{result['name']}.json").write_text(text)
    return latest


def _print(result: dict) -> None:
    print(f"\n{result['title']}")
    for placement, libraries in result["summary"].items():
        for metric in dict.fromkeys(metric for metrics in libraries.values() for metric in metrics):
            found = {library: metrics[metric]["median"] for library, metrics in libraries.items() if metric in metrics}
            print(f"  {placement:12} {metric:64} " + ", ".join(f"{library} {median:,.5g}" for library, median in found.items()))
    for library, why in result["left_out"].items():
        print(f"  left out: {library}: {why}")
    for sample in result["samples"]:
        if not sample["exact"]:
            print(f"  FAILED {sample['broker']}, round {sample['round'] + 1}: {sample['error']}")
    for check in result["checks"]:
        measured = f"; it is {check['measured']}" if "measured" in check else ""
        print(f"  {check['verdict']}: {check['what']}{measured}")


if __name__ == "__main__":
    sys.exit(main())
