"""Runs the benchmarks of the C library and writes their results as JSON; exit status 1 if a bar is missed."""

import argparse
import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
from pathlib import Path

LISTENING = re.compile(r"listening on mqtt://(\S+):(\d+)")
LIBRARIES = ["tautwire", "libmosquitto", "paho", "paho_sync"]
RATE_BAR = 1.0
# paho.mqtt.c leaves Nagle's algorithm on: from QoS 1 on a round trip waits for a delayed acknowledgement of TCP.
SLOW = {("paho", 1), ("paho", 2), ("paho_sync", 1), ("paho_sync", 2)}


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def conditions() -> dict[str, object]:
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.splitlines()
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "compiler": compiler[0] if compiler else "",
        "flags": "-std=c99 -O2",
    }


def run_codec(program: str) -> tuple[dict[str, object], bool]:
    done = subprocess.run([program], capture_output=True, text=True)
    result = json.loads(done.stdout)
    result.pop("sum")
    return result, done.returncode == 0


def round_trips(program: str, broker: str, rounds: int, count: int) -> tuple[dict[str, object], bool]:
    """Libraries take turns within a round, each round beginning with another one."""
    samples: dict[tuple[int, str], list[tuple[float, float]]] = {}
    process = subprocess.Popen([broker, "serve", "--listen", "127.0.0.1:0", "--threads", "1"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        found = next(found for line in process.stdout or [] if (found := LISTENING.search(line)))
        for turn in range(rounds):
            order = LIBRARIES[turn % len(LIBRARIES) :] + LIBRARIES[: turn % len(LIBRARIES)]
            for qos in (0, 1, 2):
                for library in order:
                    times = max(count // 100, 20) if (library, qos) in SLOW else count
                    done = subprocess.run([program, library, found[1], found[2], str(qos), str(times)],
                                          capture_output=True, text=True, timeout=120)
                    if done.returncode != 0:
                        print(f"{library} at QoS {qos}: {done.stderr.strip()}", file=sys.stderr)
                        continue
                    wall_ns, cpu_ns = (int(word) / times for word in done.stdout.split())
                    samples.setdefault((qos, library), []).append((wall_ns, cpu_ns))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
    return summed_up(samples)


def summed_up(samples: dict[tuple[int, str], list[tuple[float, float]]]) -> tuple[dict[str, object], bool]:
    levels: dict[str, object] = {}
    all_met = True
    for qos in (0, 1, 2):
        level: dict[str, object] = {}
        rates = {}
        for library in LIBRARIES:
            taken = samples.get((qos, library), [])
            if taken:
                wall = statistics.median(wall for wall, _ in taken)
                rates[library] = 1e9 / wall
                level[library] = {
                    "round_trips_per_s": round(1e9 / wall),
                    "cpu_us": round(statistics.median(cpu for _, cpu in taken) / 1000, 2),
                    "samples_wall_us": [round(wall / 1000, 1) for wall, _ in taken],
                    "samples_cpu_us": [round(cpu / 1000, 2) for _, cpu in taken],
                }
        others = [rate for library, rate in rates.items() if library != "tautwire"]
        ratio = rates.get("tautwire", 0) / max(others) if others else 0
        met = ratio >= RATE_BAR
        all_met = all_met and met
        level["rate_to_best_peer"] = {"measured": round(ratio, 2), "bar": RATE_BAR, "met": met}
        levels[f"qos{qos}"] = level
    return levels, all_met


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", required=True)
    parser.add_argument("--codec", required=True)
    parser.add_argument("--round-trip", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=5000)
    arguments = parser.parse_args()
    codec, codec_met = run_codec(arguments.codec)
    trips, trips_met = round_trips(arguments.round_trip, arguments.broker, arguments.rounds, arguments.count)
    for name, result in {"codec": codec, "round-trip": trips}.items():
        path = arguments.out / f"{name}.json"
        path.write_text(json.dumps({"conditions": conditions(), **result}, indent=1) + "\n")
        print(f"{path}:")
    for name, figure in codec["ns"].items():
        print(f"  {name:36} {figure['median']:7.2f} ns{'' if figure['met'] else '  missed: ' + str(figure['bar'])}")
    for qos, level in trips.items():
        rates = {library: level[library]["round_trips_per_s"] for library in LIBRARIES if library in level}
        print(f"  {qos} round trips/s {rates}, to the best peer {level['rate_to_best_peer']['measured']}")
    return 0 if codec_met and trips_met else 1


if __name__ == "__main__":
    sys.exit(main())
