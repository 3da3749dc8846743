"""Known vulnerabilities of our dependencies, from public advisory databases.

The databases are not in the repository: each tool downloads its own. If that is impossible, a line says so, and nothing has been
checked.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packages import ROOT

ASK_MAX_S = 300


@dataclass(frozen=True)
class Source:
    """One tool for one lock file."""

    # What is checked, for the printed line.
    subject: str
    command: list[str]
    folder: str
    # Returns the findings of the tool from its exit code and standard output; None: it could not check.
    read: Callable[[int, str], list[str] | None]


def read_cargo_audit(_code: int, out: str) -> list[str] | None:
    """Vulnerabilities, and yanked versions. Unmaintained crates do not count."""
    told = as_json(out)
    if told is None or "vulnerabilities" not in told:
        return None
    found = [*told["vulnerabilities"]["list"], *told.get("warnings", {}).get("yanked", [])]
    return [
        f"{one['package']['name']} {one['package']['version']}: {(one.get('advisory') or {'id': 'withdrawn (yanked)'})['id']}"
        for one in found
    ]


def read_npm_audit(_code: int, out: str) -> list[str] | None:
    """Of packages that run only in builds and tests, only severe vulnerabilities count."""
    return of_npm(out, {"high", "critical"})


def read_npm_audit_of_shipped(_code: int, out: str) -> list[str] | None:
    """Of packages that we ship, everything counts."""
    return of_npm(out, {"info", "low", "moderate", "high", "critical"})


def of_npm(out: str, severities: set[str]) -> list[str] | None:
    told = as_json(out)
    if told is None or "vulnerabilities" not in told:
        return None
    counting = ((name, one) for name, one in told["vulnerabilities"].items() if one["severity"] in severities)
    return [f"{name} {one.get('range', '')}: {one['severity']}" for name, one in counting]


def read_govulncheck(code: int, out: str) -> list[str] | None:
    """The tool exits with 3 if it has found something, and with 0 if not."""
    if code not in (0, 3):
        return None
    return [line.strip() for line in out.splitlines() if line.startswith("Vulnerability #")]


def as_json(text: str) -> dict | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


SOURCES = [
    Source("Cargo.lock", ["cargo", "audit", "--json"], ".", read_cargo_audit),
    Source("clients/python/Cargo.lock", ["cargo", "audit", "--json"], "clients/python", read_cargo_audit),
    Source("connect/Cargo.lock", ["cargo", "audit", "--json"], "connect", read_cargo_audit),
    Source("broker/dashboard/package-lock.json, what is shipped", ["npm", "audit", "--json", "--omit=dev"], "broker/dashboard", read_npm_audit_of_shipped),
    Source("broker/dashboard/package-lock.json", ["npm", "audit", "--json"], "broker/dashboard", read_npm_audit),
    Source("clients/typescript/package-lock.json", ["npm", "audit", "--json"], "clients/typescript", read_npm_audit),
    Source("examples/package-lock.json", ["npm", "audit", "--json"], "examples", read_npm_audit),
    Source("tests/interop/mqttjs/package-lock.json", ["npm", "audit", "--json"], "tests/interop/mqttjs", read_npm_audit),
    Source("clients/go/go.mod", ["govulncheck", "./..."], "clients/go", read_govulncheck),
]


def ask(sources: list[Source] | None = None) -> list[str]:
    """Returns all findings. Prints a line for each database, even if it could not be asked."""
    findings = []
    for source in SOURCES if sources is None else sources:
        found, reason = run(source)
        if found is None:
            print(f"{source.subject}: NOT CHECKED: {reason}")
            continue
        print(f"{source.subject}: {len(found)} known vulnerabilities")
        findings += [f"{source.subject}: {line}" for line in found]
    return findings


def run(source: Source) -> tuple[list[str] | None, str]:
    tool = " ".join(source.command[:2] if source.command[0] in ("cargo", "npm") else source.command[:1])
    program = f"cargo-{source.command[1]}" if source.command[0] == "cargo" else source.command[0]
    if shutil.which(program) is None:
        return None, f"{tool} is not installed"
    try:
        done = subprocess.run(source.command, cwd=Path(ROOT, source.folder), capture_output=True, text=True, timeout=ASK_MAX_S)
    except subprocess.TimeoutExpired:
        return None, f"{tool} timed out after {ASK_MAX_S} s"
    found = source.read(done.returncode, done.stdout)
    said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
    told = next((line for line in said if "error" in line.lower() or "audit" in line.lower()), said[-1])
    return found, f"{tool}: {told.strip()}"
