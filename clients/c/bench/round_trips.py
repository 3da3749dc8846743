"""Measures round trips of the C library and other libraries through one broker, and prints those of each round
as JSON."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys

LISTENING = re.compile(r"listening on mqtt://(\S+):(\d+)")
# paho.mqtt.c leaves Nagle's algorithm on: from QoS 1 on, a round trip waits for a delayed TCP acknowledgement.
SLOW = {("paho", 1), ("paho", 2), ("paho_sync", 1), ("paho_sync", 2)}


def round_trips(program: str, broker: str, rounds: int, count: int) -> dict[str, dict[str, list[dict[str, float] | None]]]:
    """Returns nanoseconds per round trip, by QoS and library. Libraries alternate within a round, each round
    starting with another one."""
    libraries = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    taken: dict[str, dict[str, list[dict[str, float] | None]]] = {f"qos{qos}": {name: [] for name in libraries} for qos in (0, 1, 2)}
    process = subprocess.Popen([broker, "serve", "--memory", "--listen", "127.0.0.1:0", "--threads", "1"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        found = next(found for line in process.stdout or [] if (found := LISTENING.search(line)))
        for turn in range(rounds):
            at = turn % len(libraries)
            for qos in (0, 1, 2):
                for library in libraries[at:] + libraries[:at]:
                    times = max(count // 100, 20) if (library, qos) in SLOW else count
                    taken[f"qos{qos}"][library].append(_one(program, library, found, qos, times))
            print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
    return taken


def _one(program: str, library: str, address: re.Match[str], qos: int, times: int) -> dict[str, float] | None:
    """`None` if it did not finish."""
    try:
        done = subprocess.run([program, library, address[1], address[2], str(qos), str(times)], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        print(f"{library} at QoS {qos}: timed out", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"{library} at QoS {qos}: {done.stderr.strip()}", file=sys.stderr)
        return None
    wall_ns, cpu_ns = (int(word) / times for word in done.stdout.split())
    return {"wall_ns": round(wall_ns), "cpu_ns": round(cpu_ns)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Round trips of the C library and other libraries.")
    parser.add_argument("--broker", required=True)
    parser.add_argument("--program", required=True, help="the compiled round_trip.c")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=5000)
    options = parser.parse_args()
    samples = round_trips(options.program, options.broker, options.rounds, options.count)
    print(json.dumps({"payload_bytes": 64, "round_trips": options.count, "samples": samples}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
