"""The suites to run under stress, and how to start each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PYTHON = str(ROOT / ".venv/bin/python")
CLIENT_PYTHON = str(TARGET / "python-venv/bin/python")


@dataclass(frozen=True)
class Suite:
    name: str
    command: tuple[str, ...]
    folder: str = "."
    environment: dict[str, str] = field(default_factory=dict)


def _cargo(name: str, *arguments: str) -> Suite:
    # Most tests wait for sockets, not for the CPU.
    return Suite(name, ("cargo", "test", "--locked", "--quiet", *arguments), environment={"RUST_TEST_THREADS": "8"})


def _unittest(name: str, folder: str, *arguments: str) -> Suite:
    return Suite(name, (PYTHON, "-B", "-m", "unittest", "discover", "-s", folder, *arguments))


# Compilation and installation run before the stress. `make test-stress` prepares the broker, the packages and the Python tools.
PREPARATIONS = [("cargo", "test", "--workspace", "--locked", "--quiet", "--no-run")]

SUITES = {
    suite.name: suite
    for suite in [
        _cargo("rust", "--workspace"),
        Suite("go", ("go", "test", "-count=1", "-race", "./..."), "clients/go", {"TAUTWIRE_REQUIRED": "1"}),
        Suite("c", ("make", "--silent", "test"), "clients/c"),
        Suite("typescript", ("npm", "test", "--silent"), "clients/typescript"),
        Suite("python", (CLIENT_PYTHON, "-B", "-m", "unittest", "discover", "-s", "tests"), "clients/python"),
        Suite("dashboard", ("npm", "test", "--silent"), "broker/dashboard", {"TAUTWIRE": str(ROOT / "bin/tautwire")}),
        Suite("examples", ("npm", "test", "--silent"), "examples"),
        Suite("docs", (PYTHON, "-B", "tests/docs/run.py")),
        Suite("scenario", (PYTHON, "-B", "tests/scenario/run.py")),
        _unittest("openapi", "tests/openapi"),
        _unittest("telemetry", "tests/telemetry"),
        _unittest("packages", "packaging"),
        Suite("interop", (PYTHON, "-B", "tests/interop/run.py", "--transport", "tcp")),
        # The delay of other clients cannot be checked if the broker itself is stopped.
        Suite("hostile", (PYTHON, "-B", "tests/hostile/run.py", "--untimed")),
        Suite("soak", (PYTHON, "-B", "tests/soak/run.py", "--short")),
    ]
}

# About a minute: suites that once failed when they were late, and one in Python.
SHORT = [
    _cargo("conformance-short", "-p", "tautwire-server", "--test", "conformance", "--", "faults::killed::a_broker", "session::", "scram_client::", "listeners::accept_rate::", "admin::why"),
    _unittest("openapi-short", "tests/openapi"),
]
