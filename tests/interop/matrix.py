"""Every client of this repository against every broker: connect, QoS 0, 1, 2, retained, will, properties, reconnect.

`python3 tests/interop/matrix.py` prepares all of them, runs all cases and writes the table to docs/interoperability.md. `--only
CLIENT` and `--broker BROKER` restrict it; the table is written only if nothing is left out. The exit status is 0 only if each
case matches the table of known gaps (known-gaps.toml): a gap that has closed is a failure, too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import brokers
import setup

# Behaviour of other clients that their users might mistake for a bug of the broker.
CLIENTS_OF_OTHERS = [
    "## Known behaviour of other clients",
    "",
    "- **paho-mqtt 2.2.0 (Python)**: after two connection attempts without CONNACK it publishes a QoS 2 message again although it has already",
    "  received PUBREC for it, and it sends messages published before CONNACK ahead of the ones it has to resend. Subscribers can therefore",
    "  receive duplicates and a changed order from any broker. Wait for `on_connect` before you publish.",
    "",
]
TABLE = setup.ROOT / "docs" / "interoperability.md"
GAPS = setup.INTEROP / "known-gaps.toml"
DRIVER_TIMEOUT_S = 300
MEANINGS = ("connect", "qos0", "qos1", "qos2", "retained", "will", "reconnect", "properties")
VERSIONS = {"v3": "3.1.1", "v5": "5.0"}
MESSAGE_OK = "yes"


@dataclass(frozen=True)
class Verdict:
    passed: bool
    reason: str = ""


def main() -> int:
    options = _options()
    results: dict[tuple[str, str], dict[str, Verdict]] = {}
    for name in options.broker:
        brokers.ALL[name].prepare()
        for client in options.only:
            print(f"{client} at {brokers.ALL[name].title}", flush=True)
            results[client, name] = _run(client, brokers.ALL[name])
    surprises = _surprises(results)
    for surprise in surprises:
        print(f"FAIL {surprise}")
    cases = [verdict for verdicts in results.values() for verdict in verdicts.values()]
    print(f"{sum(verdict.passed for verdict in cases)} of {len(cases)} cases passed, {len(surprises)} surprises")
    if set(options.only) == set(setup.CLIENTS) and set(options.broker) == set(brokers.ALL) and not surprises:
        TABLE.write_text(_table(results))
        print(f"wrote {TABLE.relative_to(setup.ROOT)}")
    return 1 if surprises or not cases else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Every client of this repository against every broker.")
    parser.add_argument("--only", action="append", choices=list(setup.CLIENTS), metavar="CLIENT",
                        help=f"this client; may be repeated; one of {', '.join(setup.CLIENTS)}")
    parser.add_argument("--broker", action="append", choices=list(brokers.ALL), metavar="BROKER",
                        help=f"this broker; may be repeated; one of {', '.join(brokers.ALL)}")
    options = parser.parse_args()
    options.only = options.only or list(setup.CLIENTS)
    options.broker = options.broker or list(brokers.ALL)
    return options


def _run(client: str, broker: brokers.Broker) -> dict[str, Verdict]:
    setup.prepare(client)
    command = setup.CLIENTS[client]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    cases = [case for case in listed if case.split("_")[0] in broker.versions]
    with brokers.running(broker) as (host, port):
        run = subprocess.run([*command, host, port, *cases], capture_output=True, text=True, timeout=DRIVER_TIMEOUT_S)
    verdicts = {case: Verdict(False, f"no verdict; the driver ended with status {run.returncode}") for case in cases}
    for line in run.stdout.splitlines():
        said = re.fullmatch(r"(ok|FAIL) (\w+)(?:: (.*))?", line.rstrip())
        if said is not None and said[2] in verdicts:
            verdicts[said[2]] = Verdict(said[1] == "ok", said[3] or "")
    for case, verdict in verdicts.items():
        print(f"  {'ok' if verdict.passed else 'FAIL'} {case}{': ' + verdict.reason if verdict.reason else ''}", flush=True)
    return verdicts


def _gaps() -> dict[tuple[str, str], str]:
    """Returns what a broker does not support, by broker and case, with the reason."""
    with open(GAPS, "rb") as file:
        return {(broker, case): reason for broker, cases in tomllib.load(file).items() for case, reason in cases.items()}


def _surprises(results: dict[tuple[str, str], dict[str, Verdict]]) -> list[str]:
    gaps, found = _gaps(), []
    for (client, broker), verdicts in results.items():
        missing = {f"{version}_{meaning}" for version in brokers.ALL[broker].versions for meaning in MEANINGS
                   if (version, meaning) != ("v3", "properties")} - set(verdicts)
        found += [f"{client} at {broker}: {case} is not in the driver" for case in sorted(missing)]
        for case, verdict in verdicts.items():
            known = (broker, case) in gaps
            if not verdict.passed and not known:
                found.append(f"{client} at {broker}: {case}: {verdict.reason}")
            if verdict.passed and known:
                found.append(f"{client} at {broker}: {case} passes, but known-gaps.toml lists it")
    return found


def _table(results: dict[tuple[str, str], dict[str, Verdict]]) -> str:
    gaps = _gaps()
    lines = [
        "# Interoperability",
        "",
        "Each client of this repository against each broker. `make interop` writes this page, and writes a line only after it has run",
        "its cases. [cases.toml](../tests/interop/cases.toml) says what a case means.",
        "`properties` publishes at QoS 0, because mochi-mqtt answers a QoS 1 message that has user properties with a reason code that",
        "the standard does not know, and our clients refuse that.",
        "",
        "| client | broker | MQTT | " + " | ".join(MEANINGS) + " |",
        "|---|---|---|" + "---|" * len(MEANINGS),
    ]
    notes: list[str] = []
    for client in setup.CLIENTS:
        for name, broker in brokers.ALL.items():
            for version in broker.versions:
                cells = [_cell(results[client, name], name, f"{version}_{meaning}", notes, gaps) for meaning in MEANINGS]
                lines.append(f"| {client} | {broker.title} | {VERSIONS[version]} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))] if notes else []
    versions = ", ".join(f"{broker.title} {broker.version_of()}" for broker in brokers.ALL.values())
    lines += ["", f"Brokers: {versions}.", "mosquitto, mochi-mqtt and Tautwire speak 5.0; Aedes and nats-server do not.", "", *CLIENTS_OF_OTHERS]
    return "\n".join(lines)


def _cell(verdicts: dict[str, Verdict], broker: str, case: str, notes: list[str], gaps: dict[tuple[str, str], str]) -> str:
    if case not in verdicts:
        return "–"
    if verdicts[case].passed:
        return MESSAGE_OK
    note = f"{brokers.ALL[broker].title}: {gaps[broker, case]}"
    if note not in notes:
        notes.append(note)
    return f"no ({notes.index(note) + 1})"


if __name__ == "__main__":
    sys.exit(main())
