"""The round-trip matrix: client → broker → echo server → broker → client, one exchange at a time. See README.md."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import sys
import time
from pathlib import Path

import machine
import programs
import summary
from drivers import Driver, DriverError, pinned, running, running_raw
from summary import Cell

RESULTS = programs.ROOT / "bench" / "results"
QOS = (0, 1, 2)
# The first exchanges of clients without TCP_NODELAY take 40 ms each, until the broker detects such a client.
WARM_UP_LIMIT_MIN_MS = 500
PLACEMENTS = {"broker=0,generator=0": 0, "free": None}


def main() -> int:
    options = _options()
    present, left_out = _prepare(options)
    _alone = machine.wait_for_other_runs()
    started = time.monotonic()
    samples: list[dict] = []
    histograms: dict[str, dict[str, dict[str, dict]]] = {}
    for placement in options.placement:
        for qos in options.qos:
            samples += _measure(placement, qos, present, options, started, histograms)
    result = _result(options, present, left_out, samples, histograms, time.monotonic() - started)
    path = _write(result, options)
    _print(result, options.placement[0])
    print(f"written to {path}")
    # A quick run is too short for the thresholds, but must not lose anything.
    lost = any(not sample["exact"] for sample in samples if sample["broker"] == "tautwire")
    return 1 if lost or (result["verdict"] == "fail" and not options.quick) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Round trips through brokers, of all clients to all clients.")
    parser.add_argument("--quick", action="store_true", help="few exchanges, one round, one placement: whether it works")
    parser.add_argument("--count", type=int, help="exchanges of a client with a server of its own kind (100,000)")
    parser.add_argument("--mixed-count", type=int, help="exchanges of a client with a server of another kind, and of those about TCP_NODELAY (10,000)")
    parser.add_argument("--rounds", type=int, help="in which the exchanges are done, by turns (3)")
    parser.add_argument("--limit-ms", type=int, help="the longest that a pair of a kind may take in one round (10,000); a mixed one has a tenth of it")
    parser.add_argument("--qos", type=int, action="append", choices=QOS)
    parser.add_argument("--broker", action="append", choices=list(programs.BROKERS))
    parser.add_argument("--client", action="append", choices=list(programs.CLIENTS))
    parser.add_argument("--placement", action="append", choices=list(PLACEMENTS))
    parser.add_argument("--out", type=Path, help="where the result goes; without it, bench/results/HARDWARE or bench/results/quick")
    options = parser.parse_args()
    quick = options.quick
    options.count = options.count or (300 if quick else 100_000)
    options.mixed_count = options.mixed_count or (40 if quick else 10_000)
    options.rounds = options.rounds or (1 if quick else 3)
    options.limit_ms = options.limit_ms or (100 if quick else 10_000)
    options.qos = options.qos or list(QOS)
    options.broker = options.broker or list(programs.BROKERS)
    options.client = options.client or list(programs.CLIENTS)
    options.placement = options.placement or list(PLACEMENTS)[: 1 if quick else 2]
    return options


def _prepare(options: argparse.Namespace) -> tuple[dict[str, list[str]], dict[str, str]]:
    left_out: dict[str, str] = {}

    def those_had(names: list[str], prepare) -> list[str]:
        had = []
        for name in names:
            try:
                prepare(name)
                had.append(name)
            except programs.Unavailable as error:
                left_out[name] = str(error)
                print(f"left out: {name}: {error}", file=sys.stderr)
        return had

    programs.prepare_raw()
    return {
        "brokers": those_had(options.broker, programs.prepare_broker),
        "clients": those_had(options.client, programs.prepare_client),
    }, left_out


def _measure(
    placement: str, qos: int, present: dict[str, list[str]], options: argparse.Namespace, started: float, histograms: dict
) -> list[dict]:
    """Runs all pairs at one QoS; brokers and bare sockets alternate within each round."""
    samples: list[dict] = []
    times: dict[Cell, list[int]] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(pinned(PLACEMENTS[placement]))
        addresses = {name: stack.enter_context(programs.interop_brokers.running(programs.BROKERS[name])) for name in present["brokers"]}
        names = [name for name in present["clients"] if qos > 0 or not programs.CLIENTS[name].about_nodelay]
        drivers = stack.enter_context(running(_commands(addresses, names, qos)))
        raw = stack.enter_context(running_raw(programs.RAW))
        cells = [Cell("raw", language, protocol, qos) for language, protocol in programs.RAW]
        # Mixed pairs show interoperability and its cost; another placement adds nothing to that.
        is_first = placement == options.placement[0]
        cells += [
            Cell(broker, client, server, qos)
            for client in names for server in names if client == server or is_first and _may_mix(client, server)
            for broker in addresses
        ]
        _warm_up(cells, drivers, raw, options)
        for turn in range(options.rounds):
            load_average = os.getloadavg()[0]
            # Each round starts with a different one.
            shift = turn * len(cells) // options.rounds
            figures, errors = {}, {}
            for cell in cells[shift:] + cells[:shift]:
                try:
                    exchanges = _asking(cell, drivers, raw).ask(cell.server, _count(cell, options) // options.rounds or 1, _limit_ms(cell, options))
                except DriverError as error:
                    errors[cell] = str(error)
                    continue
                figures[cell] = summary.of_times(exchanges)
                if cell.is_even:
                    times.setdefault(cell, []).extend(exchanges)
            samples += _samples(placement, turn, load_average, figures, errors)
            elapsed_s = time.monotonic() - started
            print(f"{placement}, QoS {qos}, round {turn + 1} of {options.rounds}, {elapsed_s:.0f} s", file=sys.stderr, flush=True)
    for cell, exchanges in times.items():
        histograms.setdefault(placement, {}).setdefault(cell.broker, {})[cell.name] = summary.histogram(exchanges)
    return samples


def _commands(addresses: dict[str, tuple[str, str]], clients: list[str], qos: int) -> dict[tuple, tuple[str, ...]]:
    commands = {}
    for broker, (host, port) in addresses.items():
        for name in clients:
            client = programs.CLIENTS[name]
            commands[broker, "echo", name] = (*client.command, "echo", host, port, str(qos), name)
            commands[broker, "ping", name] = (*client.command, "ping", host, port, str(qos), client.digit)
    return commands


def _warm_up(cells: list[Cell], drivers: dict, raw: dict, options: argparse.Namespace) -> None:
    """Warms up JIT compilers, caches and branch predictors: a tenth of the exchanges, which do not count."""
    for cell in cells:
        with contextlib.suppress(DriverError):
            count, limit_ms = max(20, _count(cell, options) // 10), max(_limit_ms(cell, options) // 10, WARM_UP_LIMIT_MIN_MS)
            own_count = 0 if cell.is_raw or options.quick else programs.CLIENTS[cell.client].warm_up_exchanges
            if own_count > 0:
                count, limit_ms = own_count, options.limit_ms
            _asking(cell, drivers, raw).ask(cell.server, count, limit_ms)


def _may_mix(client: str, server: str) -> bool:
    return not (programs.CLIENTS[client].about_nodelay or programs.CLIENTS[server].about_nodelay)


def _is_long(cell: Cell) -> bool:
    return cell.is_raw or (cell.is_even and not programs.CLIENTS[cell.client].about_nodelay)


def _count(cell: Cell, options: argparse.Namespace) -> int:
    return options.count if _is_long(cell) else options.mixed_count


def _limit_ms(cell: Cell, options: argparse.Namespace) -> int:
    return options.limit_ms if _is_long(cell) else max(options.limit_ms // 10, 10)


def _asking(cell: Cell, drivers: dict, raw: dict) -> Driver:
    if cell.is_raw:
        return raw[cell.client, cell.server]
    echo = drivers[cell.broker, "echo", cell.server]
    if echo.failure:
        raise DriverError(f"the server: {echo.failure}")
    return drivers[cell.broker, "ping", cell.client]


def _samples(placement: str, turn: int, load_average: float, figures: dict, errors: dict) -> list[dict]:
    """One for each broker."""
    samples = []
    for broker, metrics in summary.of_round(figures).items():
        failed = [f"{cell.name}: {error}" for cell, error in errors.items() if cell.broker == broker]
        sample = {"broker": broker, "placement": placement, "round": turn, "load_average": round(load_average, 2), "exact": not failed}
        samples.append(sample | {"metrics": metrics} | ({"error": "; ".join(failed)} if failed else {}))
    return samples


def _result(options: argparse.Namespace, present: dict, left_out: dict, samples: list[dict], histograms: dict, took_s: float) -> dict:
    summarised = summary.summarise(samples)
    checks = summary.checks(summarised, options.placement[0], samples)
    return {
        "name": "rtt-matrix",
        "title": "round trips client → broker → server → broker → client, 16 bytes",
        "definition_version": 2,
        "commit": machine.revision(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "quick": options.quick,
        "took_s": round(took_s, 1),
        "rounds": options.rounds,
        "mqtt_version": "3.1.1",
        "machine": machine.describe(),
        "versions": programs.versions(present["brokers"], present["clients"]),
        "left_out": left_out,
        "parameters": {
            "kind": "rtt-matrix", "payload_bytes": 16, "raw_message_bytes": 40, "exchanges": options.count,
            "mixed_exchanges": options.mixed_count, "limit_ms": options.limit_ms, "clients": present["clients"],
        },
        "summary": summarised,
        "histograms": histograms,
        "checks": checks,
        "verdict": summary.verdict(checks),
        "samples": samples,
    }


def _write(result: dict, options: argparse.Namespace) -> Path:
    folder = options.out or RESULTS / ("quick" if options.quick else machine.slug(result["machine"]))
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    # Write each row of numbers on one line.
    text = re.sub(r"\[\s+(\d[\d,\s]*?)\s*\]", lambda row: "[" + re.sub(r"\s+", " ", row[1]) + "]", text) + "\n"
    latest = folder / f"latest-{result['name']}.json"
    latest.write_text(text)
    (folder / f"{result['commit']}_{result['name']}.json").write_text(text)
    return latest


def _print(result: dict, placement: str) -> None:
    print(f"\n{result['title']}; {placement}; a second, the median of one, part of the rate of raw TCP and of its median")
    for broker, metrics in result["summary"].get(placement, {}).items():
        for name in metrics:
            if name.endswith(f"_{summary.RATE}"):
                prefix = name.removesuffix(summary.RATE)
                ratios = [metrics[prefix + ratio]["median"] for ratio in (summary.RATIO, summary.RATIO_OF_P50) if prefix + ratio in metrics]
                parts = " ".join(f"{ratio:6.2f}" for ratio in ratios)
                rate, p50 = metrics[name]["median"], metrics[prefix + "p50_us"]["median"]
                print(f"  {broker:10} {prefix.strip('_'):32} {rate:10,.0f}/s {p50:10,.1f} µs {parts}".rstrip())
    for sample in result["samples"]:
        if not sample["exact"]:
            print(f"  FAILED {sample['broker']}: {sample['error']}")
    for check in result["checks"]:
        measured = f"; it is {check['measured']}" if "measured" in check else ""
        print(f"  {check['verdict']}: {check['what']}{measured}")


if __name__ == "__main__":
    sys.exit(main())
